#include "record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "errors.h"

namespace trt_runtime {
namespace {

constexpr std::string_view kAbi = "10";
constexpr std::string_view kCpu = "-1%0%0%-1%cpu";
constexpr std::string_view kMend = "; the record is damaged or from another version, make it again";
constexpr std::size_t kDeviceFields = 5;

// Splits at every `separator`; the empty text is the empty list.
std::vector<std::string> split(const std::string_view text, const char separator) {
    std::vector<std::string> parts;
    if (text.empty()) return parts;
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = text.find(separator, begin);
        parts.emplace_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

std::string join(const std::vector<std::string>& parts, const char separator) {
    std::string text;
    for (const std::string& part : parts) {
        if (!text.empty()) text += separator;
        text += part;
    }
    return text;
}

bool parse_flag(const std::string_view text, const std::string_view field) {
    TRT_RUNTIME_CHECK(RecordError, text == "0" || text == "1", field,
                      ": expected '0' or '1', found '", text, "'", kMend);
    return text == "1";
}

std::string flag(const bool value) { return value ? "1" : "0"; }

bool is_number(const std::string_view text) {
    // No GPU has an id or a compute capability of more digits; a bound keeps readers from overflow.
    constexpr std::size_t kMaxDigits = 4;
    return !text.empty() && text.size() <= kMaxDigits &&
           std::all_of(text.begin(), text.end(), [](const char c) { return c >= '0' && c <= '9'; });
}

void check_device(const std::string_view device) {
    const std::vector<std::string> fields = split(device, '%');
    const bool is_gpu = fields.size() == kDeviceFields && fields[3] == "0" &&
                        is_number(fields[0]) && is_number(fields[1]) && is_number(fields[2]);
    TRT_RUNTIME_CHECK(RecordError, is_gpu || device == kCpu,
                      "device: expected 'id%major%minor%0%name' of a GPU or '", kCpu,
                      "' of the CPU, found '", device, "'", kMend);
}

void check_names(const std::vector<std::string>& names, const std::string_view field) {
    TRT_RUNTIME_CHECK(RecordError, !names.empty(), field,
                      ": expected at least one binding, found none; an engine computes something "
                      "from something");
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string& name = names[i];
        TRT_RUNTIME_CHECK(RecordError,
                          !name.empty() && name.find_first_of("%@") == std::string::npos, field,
                          ": expected a binding name without '%' and '@', found '", name,
                          "' at index ", i, "; rename the binding");
        TRT_RUNTIME_CHECK(RecordError, std::count(names.begin(), names.end(), name) == 1, field,
                          ": expected every binding once, found '", name,
                          "' twice; rename one of them");
    }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

void check_aliases(const Record& record) {
    for (const AliasedIo& alias : record.aliased_io) {
        TRT_RUNTIME_CHECK(
            RecordError,
            contains(record.outputs, alias.output) && contains(record.inputs, alias.input),
            "aliased I/O: expected an output of [", join(record.outputs, ' '),
            "] and an input of [", join(record.inputs, ' '), "], found output '", alias.output,
            "' and input '", alias.input, "'", kMend);
        TRT_RUNTIME_CHECK(
            RecordError, !alias.kind.empty() && alias.kind.find_first_of("%@") == std::string::npos,
            "aliased I/O: expected a kind without '%' and '@', found '", alias.kind,
            "' for output '", alias.output, "'", kMend);
    }
}

std::vector<AliasedIo> parse_aliases(const std::string_view text) {
    std::vector<AliasedIo> aliases;
    for (const std::string& entry : split(text, '%')) {
        std::vector<std::string> fields = split(entry, '@');
        TRT_RUNTIME_CHECK(RecordError, fields.size() == 3,
                          "aliased I/O: expected 'output@input@kind', found '", entry, "'", kMend);
        aliases.push_back({std::move(fields[0]), std::move(fields[1]), std::move(fields[2])});
    }
    return aliases;
}

std::string aliases_text(const std::vector<AliasedIo>& aliases) {
    std::vector<std::string> entries;
    entries.reserve(aliases.size());
    for (const AliasedIo& alias : aliases) {
        entries.push_back(alias.output + '@' + alias.input + '@' + alias.kind);
    }
    return join(entries, '%');
}

}  // namespace

void check_record(const Record& record) {
    TRT_RUNTIME_CHECK(
        RecordError, !record.name.empty() && record.name.find('%') == std::string::npos,
        "name: expected a text without '%', found '", record.name, "'; rename the engine");
    check_device(record.device);
    check_names(record.inputs, "input names");
    check_names(record.outputs, "output names");
    TRT_RUNTIME_CHECK(RecordError, !record.target_platform.empty(),
                      "target platform: expected a text such as 'linux_x86_64', found none", kMend);
    check_aliases(record);
}

std::vector<std::optional<std::string>> to_slots(const Record& record) {
    return {
        std::string(kAbi),
        record.name,
        record.device,
        std::nullopt,
        join(record.inputs, '%'),
        join(record.outputs, '%'),
        flag(record.hardware_compatible),
        record.metadata,
        record.target_platform,
        flag(record.requires_output_allocator),
        flag(record.dynamic_allocation),
        flag(record.requires_native_multidevice),
        aliases_text(record.aliased_io),
    };
}

Record parse_record(const std::vector<std::string>& slots) {
    TRT_RUNTIME_CHECK(RecordError, slots.size() == kRecordSlots, "engine record: expected ",
                      kRecordSlots, " strings (ABI ", kAbi, "), found ", slots.size(),
                      slots.empty() ? std::string() : " with ABI '" + slots[0] + "'",
                      "; build the engine again with this version of trt-export");
    TRT_RUNTIME_CHECK(RecordError, slots[0] == kAbi, "engine record: expected ABI '", kAbi,
                      "', found '", slots[0],
                      "'; build the engine again with this version of trt-export");
    return {
        .name = slots[1],
        .device = slots[2],
        .inputs = split(slots[4], '%'),
        .outputs = split(slots[5], '%'),
        .hardware_compatible = parse_flag(slots[6], "hardware-compatible"),
        .metadata = slots[7],
        .target_platform = slots[8],
        .requires_output_allocator = parse_flag(slots[9], "requires output allocator"),
        .dynamic_allocation = parse_flag(slots[10], "resource allocation strategy"),
        .requires_native_multidevice = parse_flag(slots[11], "requires native multi-device"),
        .aliased_io = parse_aliases(slots[12]),
    };
}

}  // namespace trt_runtime

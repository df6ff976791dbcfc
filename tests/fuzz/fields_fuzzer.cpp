// Records of engines the other way round: fields that pass the check survive their text.
#include <fuzzer/FuzzedDataProvider.h>

#include "errors.h"
#include "record.h"
#include "require.h"

namespace {

using trt_runtime::AliasedIo;
using trt_runtime::Record;

constexpr std::size_t kLongest = 24;

std::vector<std::string> names(FuzzedDataProvider& fuzzed) {
    std::vector<std::string> made(fuzzed.ConsumeIntegralInRange<std::size_t>(0, 4));
    for (std::string& name : made) name = fuzzed.ConsumeRandomLengthString(kLongest);
    return made;
}

// Mostly a name that is there, as random ones are hardly ever equal.
std::string one_of(FuzzedDataProvider& fuzzed, const std::vector<std::string>& made) {
    if (made.empty() || fuzzed.ConsumeIntegralInRange(0, 7) == 0) {
        return fuzzed.ConsumeRandomLengthString(kLongest);
    }
    return fuzzed.PickValueInArray({made.front(), made.back()});
}

std::string device(FuzzedDataProvider& fuzzed) {
    switch (fuzzed.ConsumeIntegralInRange(0, 3)) {
        case 0:
            return "-1%0%0%-1%cpu";
        case 1:
            return "0%8%9%0%" + fuzzed.ConsumeRandomLengthString(kLongest);
        default:
            return fuzzed.ConsumeRandomLengthString(kLongest);
    }
}

Record record_of(FuzzedDataProvider& fuzzed) {
    Record record;
    record.device = device(fuzzed);
    record.hardware_compatible = fuzzed.ConsumeBool();
    record.requires_output_allocator = fuzzed.ConsumeBool();
    record.dynamic_allocation = fuzzed.ConsumeBool();
    record.requires_native_multidevice = fuzzed.ConsumeBool();
    record.name = fuzzed.ConsumeRandomLengthString(kLongest);
    record.target_platform = fuzzed.ConsumeRandomLengthString(kLongest);
    record.inputs = names(fuzzed);
    record.outputs = names(fuzzed);
    record.aliased_io.resize(fuzzed.ConsumeIntegralInRange<std::size_t>(0, 3));
    for (AliasedIo& alias : record.aliased_io) {
        alias = {.output = one_of(fuzzed, record.outputs),
                 .input = one_of(fuzzed, record.inputs),
                 .kind = fuzzed.ConsumeRandomLengthString(kLongest)};
    }
    record.metadata = fuzzed.ConsumeRemainingBytesAsString();
    return record;
}

bool same(const AliasedIo& one, const AliasedIo& other) {
    return one.output == other.output && one.input == other.input && one.kind == other.kind;
}

bool same(const Record& one, const Record& other) {
    return one.name == other.name && one.device == other.device && one.inputs == other.inputs &&
           one.outputs == other.outputs && one.hardware_compatible == other.hardware_compatible &&
           one.metadata == other.metadata && one.target_platform == other.target_platform &&
           one.requires_output_allocator == other.requires_output_allocator &&
           one.dynamic_allocation == other.dynamic_allocation &&
           one.requires_native_multidevice == other.requires_native_multidevice &&
           std::equal(one.aliased_io.begin(), one.aliased_io.end(), other.aliased_io.begin(),
                      other.aliased_io.end(),
                      [](const AliasedIo& a, const AliasedIo& b) { return same(a, b); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    FuzzedDataProvider fuzzed(data, size);
    const Record record = record_of(fuzzed);
    try {
        trt_runtime::check_record(record);
    } catch (const trt_runtime::RecordError&) {
        return 0;
    }
    std::vector<std::string> slots;
    for (const auto& slot : trt_runtime::to_slots(record)) slots.push_back(slot.value_or(""));
    const Record back = trt_runtime::parse_record(slots);
    trt_runtime::check_record(back);
    require(same(back, record));
    return 0;
}

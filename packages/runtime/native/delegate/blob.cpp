#include "blob.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "../little_endian.h"

namespace trt_runtime {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kHeaderSize = 32;
constexpr std::size_t kAlignment = 16;
constexpr std::string_view kMagic = "TR01";
constexpr std::string_view kMagicAliased = "TR02";
// What a writer that leaves an alias's kind out means: the only one that TensorRT itself enforces.
constexpr std::string_view kDefaultAlias = "kv_cache_update";
// ExecuTorch's tensors have at most 16 dimensions (kTensorDimensionLimit).
constexpr std::size_t kMaxRank = 16;
constexpr std::string_view kMend = "; the file is damaged or from another version, lower it again";

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    std::string message = "delegate payload: ";
    (message.append(parts), ...);
    throw BlobError(message.append(kMend));
}

std::string text(const std::uint64_t value) { return std::to_string(value); }

std::string cut(std::string message, const std::size_t length) {
    if (message.size() > length) message.replace(length, std::string::npos, "...");
    return message;
}

// What a parser quotes of the file is the file's bytes: no text until they are.
std::string printable(std::string message) {
    constexpr char kFirst = ' ';
    constexpr char kLast = '~';
    std::replace_if(
        message.begin(), message.end(),
        [](const char letter) { return letter < kFirst || letter > kLast; }, '?');
    return message;
}

// A value in a message must not be as long as the file, nor bytes that a terminal obeys. Lists and
// objects are only named: printing them is recursive, and a file may nest them as deeply as it
// likes.
std::string shown(const Json& value) {
    constexpr std::size_t kMaxShown = 60;
    if (value.is_structured()) {
        return std::string(value.type_name()) + " of " + text(value.size()) + " items";
    }
    return cut(value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
               kMaxShown);
}

std::string_view as_text(const std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Parts {
    bool aliased;
    std::span<const std::byte> metadata;
    std::span<const std::byte> plan;
};

Parts split(const std::span<const std::byte> payload) {
    const std::uint64_t size = payload.size();
    if (size < kHeaderSize) {
        refuse("expected a header of ", text(kHeaderSize), " bytes, found ", text(size), " in all");
    }
    const std::string_view magic = as_text(payload.first(kMagic.size()));
    if (magic != kMagic && magic != kMagicAliased) {
        refuse("expected the magic TR01 or TR02, found ", shown(std::string(magic)));
    }
    const std::uint64_t metadata_offset = little_endian<4>(payload, 4);
    const std::uint64_t metadata_size = little_endian<4>(payload, 8);
    const std::uint64_t plan_offset = little_endian<4>(payload, 12);
    const std::uint64_t plan_size = little_endian<8>(payload, 16);
    // The sum of two 32-bit numbers cannot overflow; the plan's size is only compared.
    if (metadata_offset < kHeaderSize || metadata_offset + metadata_size > plan_offset) {
        refuse("expected metadata between the header and the plan at byte ", text(plan_offset),
               ", found it at ", text(metadata_offset), " with ", text(metadata_size), " bytes");
    }
    if (plan_offset % kAlignment != 0 || plan_offset > size) {
        refuse("expected the plan at a multiple of ", text(kAlignment), " within ", text(size),
               " bytes, found it at ", text(plan_offset));
    }
    if (plan_size != size - plan_offset) {
        refuse("expected a plan of ", text(plan_size), " bytes that ends the payload, found ",
               text(size - plan_offset));
    }
    return {magic == kMagicAliased, payload.subspan(metadata_offset, metadata_size),
            payload.subspan(plan_offset)};
}

// One object of the metadata; `where` begins the messages.
class Fields {
  public:
    Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
        if (!object.is_object()) refuse(where_, ": expected an object, found ", shown(object));
    }

    std::string string(const char* const key,
                       const std::optional<std::string_view> absent = std::nullopt) const {
        const Json* const value = find(key, absent.has_value());
        if (value == nullptr) return std::string(*absent);
        if (!value->is_string()) wrong(key, "a text", *value);
        return value->get<std::string>();
    }

    bool boolean(const char* const key, const std::optional<bool> absent = std::nullopt) const {
        const Json* const value = find(key, absent.has_value());
        if (value == nullptr) return *absent;
        if (!value->is_boolean()) wrong(key, "true or false", *value);
        return value->get<bool>();
    }

    std::int64_t device(const char* const key, const std::int64_t absent) const {
        constexpr std::int64_t kMaxDevice = 9999;  // as in the record
        const Json* const value = find(key, /*optional=*/true);
        if (value == nullptr) return absent;
        const auto number = integer(*value);
        if (!number || *number < -1 || *number > kMaxDevice) {
            wrong(key, "-1 or the number of a GPU", *value);
        }
        return *number;
    }

    const Json& list(const char* const key, const bool optional = false) const {
        static const Json kEmpty = Json::array();
        const Json* const value = find(key, optional);
        if (value == nullptr) return kEmpty;
        if (!value->is_array()) wrong(key, "a list", *value);
        return *value;
    }

    std::vector<std::int64_t> shape(const char* const key) const {
        std::vector<std::int64_t> sizes;
        const Json& items = list(key);
        if (items.size() > kMaxRank) wrong(key, "at most 16 dimensions", items);
        for (const Json& item : items) {
            const auto size = integer(item);
            if (!size || *size < -1) wrong(key, "sizes or -1", item);
            sizes.push_back(*size);
        }
        return sizes;
    }

  private:
    const Json* find(const char* const key, const bool optional) const {
        const auto found = object_.find(key);
        if (found != object_.end()) return &*found;
        if (!optional) refuse(where_, ": expected the field '", key, "', found none");
        return nullptr;
    }

    [[noreturn]] void wrong(const char* const key, const char* const expected,
                            const Json& found) const {
        refuse(where_, ": field '", key, "': expected ", expected, ", found ", shown(found));
    }

    static std::optional<std::int64_t> integer(const Json& value) {
        if (value.is_number_unsigned() &&
            value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
            return std::nullopt;
        }
        if (!value.is_number_integer()) return std::nullopt;
        return value.get<std::int64_t>();
    }

    const Json& object_;
    const std::string where_;
};

std::vector<BlobBinding> read_bindings(const Json& items) {
    std::vector<BlobBinding> bindings;
    for (const Json& item : items) {
        const Fields fields(item, "binding " + text(bindings.size()));
        BlobBinding binding{.name = fields.string("name"),
                            .dtype = fields.string("dtype"),
                            .shape = fields.shape("shape"),
                            .is_input = fields.boolean("is_input")};
        if (binding.is_input && !bindings.empty() && !bindings.back().is_input) {
            refuse("expected all inputs before the outputs, found input ", shown(binding.name),
                   " behind output ", shown(bindings.back().name));
        }
        bindings.push_back(std::move(binding));
    }
    return bindings;
}

bool has_binding(const Blob& blob, const std::string_view name, const bool is_input) {
    return std::any_of(blob.bindings.begin(), blob.bindings.end(), [&](const BlobBinding& binding) {
        return binding.name == name && binding.is_input == is_input;
    });
}

std::vector<AliasedIo> read_aliases(const Json& items, const Blob& blob) {
    std::vector<AliasedIo> aliases;
    for (const Json& item : items) {
        const Fields fields(item, "alias " + text(aliases.size()));
        AliasedIo alias{.output = fields.string("output"),
                        .input = fields.string("input"),
                        .kind = fields.string("kind", kDefaultAlias)};
        if (!has_binding(blob, alias.output, false) || !has_binding(blob, alias.input, true)) {
            refuse("expected an alias of an output and an input of the engine, found ",
                   shown(alias.output), " and ", shown(alias.input));
        }
        aliases.push_back(std::move(alias));
    }
    return aliases;
}

}  // namespace

BlobError::~BlobError() = default;

std::size_t Blob::inputs() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(bindings.begin(), bindings.end(),
                      [](const BlobBinding& binding) { return binding.is_input; }));
}

Blob parse_blob(const std::span<const std::byte> payload) {
    const Parts parts = split(payload);
    Json metadata;
    try {
        metadata = Json::parse(as_text(parts.metadata));
    } catch (const Json::exception& error) {
        constexpr std::size_t kMaxReason = 200;
        refuse("expected metadata in JSON, found something else (",
               cut(printable(error.what()), kMaxReason), ")");
    }
    const Fields fields(metadata, "metadata");
    Blob blob;
    blob.bindings = read_bindings(fields.list("io_bindings"));
    // Writers in the field add an empty list to TR01; absent and empty say the same.
    blob.aliased_io = read_aliases(fields.list("aliased_io", /*optional=*/true), blob);
    if (blob.aliased_io.empty() == parts.aliased) {
        refuse("expected ", parts.aliased ? "aliased_io in a TR02" : "no aliased_io in a TR01",
               " payload, found ", text(blob.aliased_io.size()));
    }
    blob.hardware_compatible = fields.boolean("hardware_compatible", false);
    blob.device_id = fields.device("device_id", 0);
    blob.metadata = fields.string("serialized_metadata", "");
    blob.target_platform = fields.string("target_platform", "");
    blob.plan = parts.plan;
    return blob;
}

}  // namespace trt_runtime

#include "json_fields.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trt_runtime {

BlobError::~BlobError() = default;

namespace payload {
namespace {

// ExecuTorch's tensors have at most 16 dimensions (kTensorDimensionLimit).
constexpr std::size_t kMaxRank = 16;
constexpr std::string_view kMend = "; the file is damaged or from another version, lower it again";

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

std::optional<std::int64_t> integer(const Json& value) {
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
        return std::nullopt;
    }
    if (!value.is_number_integer()) return std::nullopt;
    return value.get<std::int64_t>();
}

}  // namespace

void refuse_text(std::string message) {
    throw BlobError("delegate payload: " + message.append(kMend));
}

std::string text(const std::uint64_t value) { return std::to_string(value); }

std::string_view as_text(const std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string shown(const Json& value) {
    constexpr std::size_t kMaxShown = 60;
    // Lists and objects are only named: printing them is recursive, and a file may nest them as
    // deeply as it likes.
    if (value.is_structured()) {
        return std::string(value.type_name()) + " of " + text(value.size()) + " items";
    }
    return cut(value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
               kMaxShown);
}

Json parse_json(const std::span<const std::byte> bytes) {
    // The parser takes a NUL for the end and passes over a byte order mark; other readers do not.
    const std::string_view json = as_text(bytes);
    if (json.find('\0') != std::string_view::npos || json.starts_with("\xef\xbb\xbf")) {
        refuse("expected metadata in JSON, found a NUL or a byte order mark in it");
    }
    try {
        return Json::parse(json);
    } catch (const Json::exception& error) {
        constexpr std::size_t kMaxReason = 200;
        refuse("expected metadata in JSON, found something else (",
               cut(printable(error.what()), kMaxReason), ")");
    }
}

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse(where_, ": expected an object, found ", shown(object));
}

std::string Fields::string(const char* const key,
                           const std::optional<std::string_view> absent) const {
    const Json* const value = find(key, absent.has_value());
    if (value == nullptr) return std::string(*absent);
    if (!value->is_string()) wrong(key, "a text", *value);
    return value->get<std::string>();
}

bool Fields::boolean(const char* const key, const std::optional<bool> absent) const {
    const Json* const value = find(key, absent.has_value());
    if (value == nullptr) return *absent;
    if (!value->is_boolean()) wrong(key, "true or false", *value);
    return value->get<bool>();
}

std::int64_t Fields::device(const char* const key, const std::int64_t absent) const {
    constexpr std::int64_t kMaxDevice = 9999;  // as in the record
    const Json* const value = find(key, /*optional=*/true);
    if (value == nullptr) return absent;
    const auto number = integer(*value);
    if (!number || *number < -1 || *number > kMaxDevice) {
        wrong(key, "-1 or the number of a GPU", *value);
    }
    return *number;
}

const Json& Fields::list(const char* const key, const bool optional) const {
    static const Json kEmpty = Json::array();
    const Json* const value = find(key, optional);
    if (value == nullptr) return kEmpty;
    if (!value->is_array()) wrong(key, "a list", *value);
    return *value;
}

const Json& Fields::object(const char* const key) const {
    const Json* const value = find(key, /*optional=*/false);
    if (!value->is_object()) wrong(key, "an object", *value);
    return *value;
}

std::vector<std::int64_t> Fields::shape(const char* const key) const {
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

std::vector<std::string> Fields::strings(const char* const key) const {
    std::vector<std::string> texts;
    for (const Json& item : list(key)) {
        if (!item.is_string()) wrong(key, "texts", item);
        texts.push_back(item.get<std::string>());
    }
    return texts;
}

const Json* Fields::find(const char* const key, const bool optional) const {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (!optional) refuse(where_, ": expected the field '", key, "', found none");
    return nullptr;
}

void Fields::wrong(const char* const key, const char* const expected, const Json& found) const {
    refuse(where_, ": field '", key, "': expected ", expected, ", found ", shown(found));
}

}  // namespace payload
}  // namespace trt_runtime

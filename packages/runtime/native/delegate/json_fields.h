#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "blob_error.h"

// What the readers of payloads share: JSON of which nothing is believed, and messages about it.
namespace trt_runtime::payload {

using Json = nlohmann::json;

// Throws BlobError with the parts of a message in a row.
[[noreturn]] void refuse_text(std::string message);

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    std::string message;
    (message.append(parts), ...);
    refuse_text(std::move(message));
}

std::string text(std::uint64_t value);
std::string_view as_text(std::span<const std::byte> bytes);

// A value for a message: not as long as the file, and no bytes that a terminal obeys.
std::string shown(const Json& value);

// Throws BlobError if it is not JSON.
Json parse_json(std::span<const std::byte> bytes);

// One object of the metadata; `where` begins the messages. Its functions throw BlobError.
class Fields {
  public:
    Fields(const Json& object, std::string where);

    std::string string(const char* key,
                       std::optional<std::string_view> absent = std::nullopt) const;
    bool boolean(const char* key, std::optional<bool> absent = std::nullopt) const;
    // -1 or the number of a GPU.
    std::int64_t device(const char* key, std::int64_t absent) const;
    const Json& list(const char* key, bool optional = false) const;
    const Json& object(const char* key) const;
    std::vector<std::int64_t> shape(const char* key) const;
    std::vector<std::string> strings(const char* key) const;

  private:
    const Json* find(const char* key, bool optional) const;
    [[noreturn]] void wrong(const char* key, const char* expected, const Json& found) const;

    const Json& object_;
    const std::string where_;
};

}  // namespace trt_runtime::payload

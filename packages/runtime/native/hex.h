#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trt_runtime {

// Two lower-case hex digits for each byte.
inline std::string to_hex(const std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::byte byte : bytes) {
        const auto value = std::to_integer<unsigned>(byte);
        text += kDigits[value >> 4];
        text += kDigits[value & 15];
    }
    return text;
}

}  // namespace trt_runtime

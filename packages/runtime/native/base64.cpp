#include "base64.h"

#include <array>
#include <cstdint>

#include "errors.h"
#include "stats.h"

namespace trt_runtime {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kInvalid = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
    std::array<std::uint8_t, 256> values{};
    values.fill(kInvalid);
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
        values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
    }
    return values;
}

constexpr std::array<std::uint8_t, 256> kValues = make_values();

std::uint32_t byte_at(const std::span<const std::byte> bytes, const std::size_t i) {
    return i < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i]) : 0U;
}

// The value of the character at `i`.
std::uint32_t value_at(const std::string_view text, const std::size_t i) {
    const auto value = kValues[static_cast<unsigned char>(text[i])];
    TRT_RUNTIME_CHECK(
        RecordError, value != kInvalid,
        "engine slot: expected base64 (A-Z a-z 0-9 + / and padding at the end), found "
        "byte ",
        static_cast<int>(static_cast<unsigned char>(text[i])), " at position ", i,
        "; the record is damaged, make it again");
    return value;
}

}  // namespace

std::string base64_encode(const std::span<const std::byte> bytes) {
    count(Counter::kBase64Encodes);
    std::string text((bytes.size() + 2) / 3 * 4, '=');
    char* out = text.data();
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::uint32_t group =
            byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2);
        const std::size_t left = bytes.size() - i;
        out[0] = kAlphabet[group >> 18];
        out[1] = kAlphabet[group >> 12 & 63];
        if (left > 1) out[2] = kAlphabet[group >> 6 & 63];
        if (left > 2) out[3] = kAlphabet[group & 63];
        out += 4;
    }
    return text;
}

std::vector<std::byte> base64_decode(const std::string_view text) {
    count(Counter::kBase64Decodes);
    TRT_RUNTIME_CHECK(RecordError, text.size() % 4 == 0,
                      "engine slot: expected base64 whose length is a multiple of 4, found ",
                      text.size(), " characters; the record is truncated, make it again");
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') {
        ++padding;
    }
    const std::size_t digits = text.size() - padding;
    std::vector<std::byte> bytes(text.size() / 4 * 3 - padding);
    std::size_t written = 0;
    for (std::size_t i = 0; i < digits; i += 4) {
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 4; ++k) {
            group = group << 6 | (i + k < digits ? value_at(text, i + k) : 0U);
        }
        for (std::size_t k = 0; k < 3; ++k) {
            const auto byte = static_cast<std::byte>(group >> (16 - 8 * k) & 0xffU);
            if (written < bytes.size()) {
                bytes[written++] = byte;
            } else {
                // Two texts must not stand for one plan: bits beyond its last byte are zero.
                TRT_RUNTIME_CHECK(
                    RecordError, byte == std::byte{0},
                    "engine slot: expected zero bits before the base64 padding, found "
                    "others; the record is damaged, make it again");
            }
        }
    }
    return bytes;
}

}  // namespace trt_runtime

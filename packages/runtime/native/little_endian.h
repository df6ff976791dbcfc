#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trt_runtime {

// The unsigned number of kBytes bytes at `offset`, which the caller has found to be within `bytes`.
template <std::size_t kBytes>
std::uint64_t little_endian(const std::span<const std::byte> bytes, const std::size_t offset) {
    std::uint64_t value = 0;
    for (std::size_t i = kBytes; i-- > 0;) {
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[offset + i]);
    }
    return value;
}

}  // namespace trt_runtime

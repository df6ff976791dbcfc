#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// RFC 4648 base64, padded, no line breaks: the engine slot of a record.
namespace trt_runtime {

std::string base64_encode(std::span<const std::byte> bytes);

// Throws RecordError for anything that base64_encode does not produce: a length that is no multiple
// of four, a character outside the alphabet, padding elsewhere than at the end, stray bits.
std::vector<std::byte> base64_decode(std::string_view text);

}  // namespace trt_runtime

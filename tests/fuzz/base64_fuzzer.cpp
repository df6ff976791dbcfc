// The engine's slot of a record: only what encoding makes is decoded, and any bytes come back.
#include <cstdint>

#include "base64.h"
#include "errors.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    const std::vector<std::byte> back =
        trt_runtime::base64_decode(trt_runtime::base64_encode(bytes));
    require(std::equal(back.begin(), back.end(), bytes.begin(), bytes.end()));

    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        require(trt_runtime::base64_encode(trt_runtime::base64_decode(text)) == text);
    } catch (const trt_runtime::RecordError&) {
    }
    return 0;
}

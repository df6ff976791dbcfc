// Payloads that refer to a plan in named data: whatever the bytes are, they are read or refused,
// and what is read is whole.
#include <algorithm>
#include <cstdint>

#include "delegate/reference.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    const std::span payload(reinterpret_cast<const std::byte*>(data), size);
    trt_runtime::PlanReference reference;
    try {
        reference = trt_runtime::parse_reference(payload);
    } catch (const trt_runtime::BlobError& error) {
        require_message(error.what(), 600);
        return 0;
    }
    require(trt_runtime::is_reference(payload));
    // The metadata ends the payload.
    require(reference.metadata.size() + 64 <= payload.size());
    require(reference.plan_sha256.size() == 64);
    require(reference.key().ends_with(reference.plan_sha256));
    for (auto names : {reference.inputs, reference.outputs}) {
        require(!names.empty());
        std::sort(names.begin(), names.end());
        require(std::adjacent_find(names.begin(), names.end()) == names.end());
    }
    return 0;
}

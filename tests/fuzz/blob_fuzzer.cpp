// Payloads of delegates: whatever the bytes are, they are read or refused, and what is read is
// whole.
#include <cstdint>

#include "delegate/blob.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    const std::span payload(reinterpret_cast<const std::byte*>(data), size);
    trt_runtime::Blob blob;
    try {
        blob = trt_runtime::parse_blob(payload);
    } catch (const trt_runtime::BlobError& error) {
        require_message(error.what(), 600);
        return 0;
    }
    // The plan is a part of the payload, and its end.
    require(blob.plan.data() >= payload.data());
    require(blob.plan.data() + blob.plan.size() == payload.data() + payload.size());
    require((blob.plan.data() - payload.data()) % 16 == 0);
    // Inputs come first, so that the arguments of a delegate can be split by their number.
    const std::size_t inputs = blob.inputs();
    require(inputs <= blob.bindings.size());
    for (std::size_t i = 0; i < blob.bindings.size(); ++i) {
        require(blob.bindings[i].is_input == (i < inputs));
        require(blob.bindings[i].shape.size() <= 16);
        for (const std::int64_t dim : blob.bindings[i].shape) require(dim >= -1);
    }
    require(blob.device_id >= -1);
    return 0;
}

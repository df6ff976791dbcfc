#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../export.h"
#include "../record.h"
#include "blob_error.h"

// The payload of a delegate: `TR01`, or `TR02` if outputs alias inputs. The layout is the one in
// use in the field (the ExecuTorch backend of torch-tensorrt): a header of 32 bytes, little-endian
// `<4sIIIQ8s` (magic, metadata offset, metadata size, engine offset, engine size, reserved), the
// metadata as JSON, and the plan at a multiple of 16. No header of torch is needed here.
namespace trt_runtime {

struct BlobBinding {
    std::string name;
    std::string dtype;                // torch's name, without `torch.`
    std::vector<std::int64_t> shape;  // -1 where it is known at run time only
    bool is_input = false;
};

struct Blob {
    std::vector<BlobBinding> bindings;  // in the order of the delegate's arguments: inputs, outputs
    std::vector<AliasedIo> aliased_io;
    bool hardware_compatible = false;
    std::int64_t device_id = 0;  // -1: the CPU
    std::string metadata;        // the record's
    std::string target_platform;
    std::span<const std::byte> plan;  // within the payload

    std::size_t inputs() const noexcept;
};

// Reads a payload; nothing of it is believed before it is checked. The result's plan is a view of
// `payload`. Throws BlobError.
TRT_RUNTIME_API Blob parse_blob(std::span<const std::byte> payload);

}  // namespace trt_runtime

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../export.h"
#include "blob_error.h"

namespace trt_runtime {

// The payload of the delegate `TrtRuntimeBackend`: it refers to a plan in the program's named data.
// docs/delegate.md has the format: `<4sHHIIQ32s8x`, then JSON.
struct PlanReference {
    std::vector<std::string> inputs;  // names of bindings in the order of the delegate's arguments
    std::vector<std::string> outputs;
    std::string metadata;  // the JSON, with the record; read by whoever executes the engine
    std::uint64_t plan_size = 0;
    std::string plan_sha256;  // hex

    // Under which the plan is in the named data.
    TRT_RUNTIME_API std::string key() const;
};

// Whether a payload is meant to be one, by its magic.
TRT_RUNTIME_API bool is_reference(std::span<const std::byte> payload) noexcept;

// Reads a payload; nothing of it is believed before it is checked. Throws BlobError.
TRT_RUNTIME_API PlanReference parse_reference(std::span<const std::byte> payload);

}  // namespace trt_runtime

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "../export.h"
#include "../plan.h"
#include "payload.h"

namespace trt_runtime {

// A tensor in memory that someone else owns.
struct RawTensor {
    void* data = nullptr;
    std::int32_t dtype = 0;  // c10/core/ScalarType.h
    std::vector<std::int64_t> sizes;
};

// An engine and the memory that it was bound to.
class TRT_RUNTIME_API BoundEngine {
  public:
    BoundEngine() = default;
    BoundEngine(const BoundEngine&) = delete;
    BoundEngine& operator=(const BoundEngine&) = delete;
    virtual ~BoundEngine();

    virtual void run() = 0;
};

// A deserialized plan that runs on raw memory, in the order of a payload's bindings. Both functions
// throw InputError for arguments that are not the engine's.
class TRT_RUNTIME_API RawEngine {
  public:
    RawEngine() = default;
    RawEngine(const RawEngine&) = delete;
    RawEngine& operator=(const RawEngine&) = delete;
    virtual ~RawEngine();

    using Sizes = std::vector<std::int64_t>;

    // Checks the inputs and gives the sizes of every output for them.
    virtual std::vector<Sizes> output_sizes(std::span<const RawTensor> inputs) = 0;

    virtual std::shared_ptr<BoundEngine> bind(std::span<const RawTensor> inputs,
                                              std::span<const RawTensor> outputs) = 0;
};

// Deserializes a plan; the plan is alive during the call, and as long as the engine keeps it.
using OpenRawEngine = std::function<std::shared_ptr<RawEngine>(const Payload& payload,
                                                               std::shared_ptr<const Plan> plan)>;

// Sets what opens the engines of delegates; a later one replaces it.
TRT_RUNTIME_API void register_raw_engines(OpenRawEngine open);

// Empty if no one registered any.
OpenRawEngine find_raw_engines();

}  // namespace trt_runtime

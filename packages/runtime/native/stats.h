#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "export.h"

namespace trt_runtime {

// What this process has done to engines since it started. `docs` of each: trt_runtime.stats().
enum class Counter : std::uint8_t {
    kSerializations,
    kDeserializations,
    kBase64Encodes,
    kBase64Decodes,
    kPlanCopies,
    kPlanHashes,
    kExecutorLoads,
    kDelegateBindings,
    kCount,
};

TRT_RUNTIME_API void count(Counter counter) noexcept;

// Every counter by name. Each value is exact; the set is not one snapshot.
TRT_RUNTIME_API std::vector<std::pair<std::string_view, std::uint64_t>> stats();

}  // namespace trt_runtime

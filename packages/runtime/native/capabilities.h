#pragma once

#include <array>
#include <string_view>

namespace trt_runtime {

// What an engine of this build can do beyond the baseline, sorted; what each means is said by
// trt_runtime.capabilities(). An exporter asks for these by name: none is ever taken away or
// reused.
inline constexpr std::array<std::string_view, 10> kCapabilities = {
    "engine-tensor",       "exact-int8",  "external-weights", "mapped-plans", "metadata-only",
    "named-data-delegate", "plan-digest", "record",           "tensor-state", "tracing-mode-real",
};

}  // namespace trt_runtime

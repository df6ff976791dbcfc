#pragma once

#include "export.h"

namespace trt_runtime {

struct BuildInfo {
    const char* version;        // of trt-runtime
    const char* torch;          // the torch that it was compiled against
    const char* native_sha256;  // of the native sources
};

TRT_RUNTIME_API BuildInfo build_info() noexcept;

}  // namespace trt_runtime

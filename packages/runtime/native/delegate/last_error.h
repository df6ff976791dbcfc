#pragma once

#include <string>

#include "../export.h"

namespace trt_runtime {

// What went wrong in this thread's latest delegate call. ExecuTorch hands on nothing but a number.
struct DelegateError {
    std::string kind;  // a class of trt_runtime.errors; empty: nothing went wrong
    std::string message;
};

// Returns it and forgets it.
TRT_RUNTIME_API DelegateError take_delegate_error();

}  // namespace trt_runtime

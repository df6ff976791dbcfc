#pragma once

#include <pybind11/pybind11.h>

namespace trt_runtime {

// Adds to `_native` what delegates need of Python: who opens their engines, their payloads, errors.
void bind_delegate(pybind11::module_& module);

}  // namespace trt_runtime

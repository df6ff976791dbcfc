#pragma once

#include <variant>

#include "blob.h"
#include "reference.h"

namespace trt_runtime {

// What a delegate is made of: its plan inline, or a reference to it.
using Payload = std::variant<Blob, PlanReference>;

}  // namespace trt_runtime

#pragma once

#include <memory>

#include "export.h"
#include "plan.h"

namespace trt_runtime {

// Makes a plan that is a view of an open file; the file may be closed afterwards. Nothing is read
// but the header, and the memory is the page cache's.
//
// The file must keep its bytes. Replacing it by another of the same name is fine, since the mapping
// holds the file itself. Cutting it off ends a process that reads behind the new end (SIGBUS),
// which no check here can prevent. What someone writes to the plan's memory stays in this process.
//
// Throws PlanError for what is no regular file, is empty, cannot be mapped or holds no plan.
TRT_RUNTIME_API std::shared_ptr<Plan> map_plan(int file);

}  // namespace trt_runtime

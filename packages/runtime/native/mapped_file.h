#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "export.h"
#include "plan.h"

namespace trt_runtime {

// Which bytes of a file are a plan.
struct FileRange {
    std::size_t offset = 0;
    std::optional<std::size_t> size;  // none: all that follow
};

// Makes a plan that is a view of an open file, or of a part of it; the file may be closed
// afterwards. Nothing is read but the header, and the memory is the page cache's.
//
// The file must keep its bytes. Replacing it by another of the same name is fine, since the mapping
// holds the file itself. Cutting it off ends a process that reads behind the new end (SIGBUS),
// which no check here can prevent. What someone writes to the plan's memory stays in this process.
//
// Throws PlanError for what is no regular file, is empty, ends before the range does, cannot be
// mapped or holds no plan.
TRT_RUNTIME_API std::shared_ptr<Plan> map_plan(int file, FileRange range = {});

}  // namespace trt_runtime

#pragma once

#include <cstdint>
#include <string>

#include "../export.h"

namespace trt_runtime {

// What becomes of ExecuTorch's messages.
enum class LogMode : std::uint8_t {
    kUnexplained,  // to stderr, but for calls of `Program`: those end in an exception that says it
    kAll,          // all of them to stderr
    kNone,         // none to stderr
};

TRT_RUNTIME_API void set_log_mode(LogMode mode);

// Between these two, which nest, messages of this thread are kept for `take_log`. What nobody has
// taken by the end of the outermost pair goes to stderr.
TRT_RUNTIME_API void begin_log_capture();
TRT_RUNTIME_API void end_log_capture();

// Returns what this thread has captured, line by line, and forgets it.
TRT_RUNTIME_API std::string take_log();

}  // namespace trt_runtime

#pragma once

#include <cxxabi.h>
#include <unistd.h>

namespace trt_runtime {

// Python before 3.14 ends a thread that wants the GIL back while the interpreter goes down
// (pthread_exit). That unwinds the thread's stack by force, and the first frame of any library
// that lets nothing pass (noexcept, a destructor, a `catch (...)` that does not rethrow) aborts
// the process. So such a thread stays in our innermost frame until the process is gone, as
// Python 3.14 has it.
[[noreturn]] inline void stay_until_exit() {
    for (;;) pause();
}

// Does work that calls Python from a frame that others' frames lie above. What unwinds by force is
// no C++ object, so the reference that catches it is null, which UndefinedBehaviorSanitizer would
// report.
template <typename Work>
__attribute__((no_sanitize("null"))) auto outliving_interpreter(const Work& work) {
    try {
        return work();
    } catch (const abi::__forced_unwind&) {
        stay_until_exit();
    }
}

}  // namespace trt_runtime

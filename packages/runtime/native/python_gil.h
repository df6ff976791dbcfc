#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pythoncapi_compat.h>

#include "errors.h"
#include "interpreter_exit.h"

namespace trt_runtime {

namespace detail {

// A thread that asks for the GIL while the interpreter goes down stays here (interpreter_exit.h).
template <typename Work>
auto acquire_gil(const Work& work) {
    return outliving_interpreter([&] {
        const pybind11::gil_scoped_acquire gil;
        // Inside of it too a thread may be ended, and must not give the GIL back then.
        return outliving_interpreter(work);
    });
}

}  // namespace detail

// Does work with the GIL, from any thread that owns no lock which others need to exit: it may stay
// here for ever. Throws ExecutorUnavailableError where there is no interpreter any more.
template <typename Work>
auto with_gil(const Work& work) {
    TRT_RUNTIME_CHECK(ExecutorUnavailableError, Py_IsInitialized() != 0,
                      "expected a running Python interpreter, which executors need, found none; "
                      "run engines before the interpreter is finalized");
    return detail::acquire_gil(work);
}

// Releases Python objects, from any thread: for deleters and destructors.
//
// Once the interpreter goes down they are leaked, since the process ends soon. Looking whether it
// does is not enough: that may begin after the look and before the GIL is there. A thread that is
// refused the GIL then would be unwound through the destructor that called us, which aborts the
// process; acquire_gil makes it stay instead.
template <typename Release>
void release_with_gil(const Release& release) noexcept {
    if (Py_IsInitialized() == 0 || Py_IsFinalizing() != 0) return;
    detail::acquire_gil(release);
}

}  // namespace trt_runtime

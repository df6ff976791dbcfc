#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pythoncapi_compat.h>

#include <memory>
#include <utility>

namespace trt_runtime {

// Runs `release` with the GIL, from any thread. Once the interpreter is going down the GIL can no
// longer be had (a thread that asks for it hangs or is killed), so what it would release is left to
// the end of the process.
template <typename Release>
void with_interpreter(const Release& release) {
    if (Py_IsInitialized() == 0 || Py_IsFinalizing() != 0) return;
    const pybind11::gil_scoped_acquire gil;
    release();
}

// A reference to a Python object that C++ may copy and drop without the GIL.
class PythonReference {
  public:
    explicit PythonReference(pybind11::object object)
        : object_(object.release().ptr(),
                  [](PyObject* const owned) { with_interpreter([&] { Py_DECREF(owned); }); }) {}

    // Needs the GIL.
    pybind11::object get() const {
        return pybind11::reinterpret_borrow<pybind11::object>(object_.get());
    }

  private:
    std::shared_ptr<PyObject> object_;
};

}  // namespace trt_runtime

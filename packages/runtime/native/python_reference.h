#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "python_gil.h"

namespace trt_runtime {

// A reference to a Python object that C++ may copy and drop without the GIL.
class PythonReference {
  public:
    explicit PythonReference(pybind11::object object)
        : object_(object.release().ptr(),
                  [](PyObject* const owned) { release_with_gil([&] { Py_DECREF(owned); }); }) {}

    // Needs the GIL.
    pybind11::object get() const {
        return pybind11::reinterpret_borrow<pybind11::object>(object_.get());
    }

  private:
    std::shared_ptr<PyObject> object_;
};

}  // namespace trt_runtime

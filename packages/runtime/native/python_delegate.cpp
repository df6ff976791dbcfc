#include "python_delegate.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "delegate/last_error.h"
#include "delegate/log.h"
#include "delegate/payload.h"
#include "delegate/raw_engine.h"
#include "errors.h"
#include "python_gil.h"
#include "python_reference.h"

namespace py = pybind11;

namespace trt_runtime {
namespace {

// ExecuTorch's Python bindings swap the buffers of std::cout and std::cerr for the time of a call.
// The engine gives the GIL away while it runs, so calls of several threads overlap, and would put
// the buffers back in the wrong order: output goes to a buffer that is gone. So for the time that
// the GIL may be away, the buffers are those that the process began with.
class OriginalStreams {
  public:
    OriginalStreams() : out_(std::cout.rdbuf(original_out)), err_(std::cerr.rdbuf(original_err)) {}
    OriginalStreams(const OriginalStreams&) = delete;
    OriginalStreams& operator=(const OriginalStreams&) = delete;
    ~OriginalStreams() {
        std::cout.rdbuf(out_);
        std::cerr.rdbuf(err_);
    }

    static void capture() {
        original_out = std::cout.rdbuf();
        original_err = std::cerr.rdbuf();
    }

  private:
    static inline std::streambuf* original_out = nullptr;
    static inline std::streambuf* original_err = nullptr;
    std::streambuf* const out_;
    std::streambuf* const err_;
};

// What ended this thread's latest delegate call though it is no error (KeyboardInterrupt,
// SystemExit): ExecuTorch's side only learns that the call failed, and `Program` raises this.
thread_local PyObject* interruption = nullptr;

void keep_interruption(PyObject* const value) {
    Py_XINCREF(value);
    PyObject* const old = std::exchange(interruption, value);
    Py_XDECREF(old);
}

// Throws the native twin of a Python exception: ExecuTorch's side knows nothing of Python's.
[[noreturn]] void rethrow(const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) keep_interruption(error.value().ptr());
    const std::string kind = py::str(error.type().attr("__name__"));
    const std::string message = py::str(error.value());
    const c10::SourceLocation where{__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)};
    if (kind == "InputError") throw InputError(where, message);
    if (kind == "PlanError") throw PlanError(where, message);
    if (kind == "RecordError") throw RecordError(where, message);
    if (kind == "ExecutorUnavailableError") throw ExecutorUnavailableError(where, message);
    if (kind == "ExecutionError") throw ExecutionError(where, message);
    throw ExecutionError(where, kind + ": " + message);
}

template <typename Work>
auto with_python(const Work& work) {
    return with_gil([&] {
        // A thread that Python ends stays in `work`, and does not touch the streams any more.
        const OriginalStreams streams;
        try {
            return outliving_interpreter(work);
        } catch (const py::error_already_set& error) {
            rethrow(error);
        }
    });
}

py::list to_python(const std::span<const RawTensor> tensors) {
    py::list list;
    for (const RawTensor& tensor : tensors) {
        list.append(py::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data), tensor.dtype,
                                   py::cast(tensor.sizes)));
    }
    return list;
}

// A `Bound` of executors/bound.py. Its `run` is called without its `__call__`: a frame of Python
// costs a small engine more than all that is here.
class PythonBoundEngine final : public BoundEngine {
  public:
    explicit PythonBoundEngine(const py::object& bound) : bound_(bound), run_(bound.attr("run")) {}

    void run() override {
        with_python([&] {
            if (PyObject* const result = PyObject_CallNoArgs(run_.get().ptr())) {
                Py_DECREF(result);
                return;
            }
            const py::error_already_set error;
            if (!error.matches(PyExc_Exception)) throw error;
            const py::object explained = bound_.get().attr("explain")(error.value());
            PyErr_SetObject(explained.get_type().ptr(), explained.ptr());
            throw py::error_already_set();
        });
    }

  private:
    const PythonReference bound_;
    const PythonReference run_;
};

class PythonRawEngine final : public RawEngine {
  public:
    explicit PythonRawEngine(py::object engine) : engine_(std::move(engine)) {}

    std::vector<Sizes> output_sizes(const std::span<const RawTensor> inputs) override {
        return with_python([&] {
            return engine_.get().attr("output_sizes")(to_python(inputs)).cast<std::vector<Sizes>>();
        });
    }

    std::shared_ptr<BoundEngine> bind(const std::span<const RawTensor> inputs,
                                      const std::span<const RawTensor> outputs) override {
        return with_python([&] {
            return std::make_shared<PythonBoundEngine>(
                engine_.get().attr("bind")(to_python(inputs), to_python(outputs)));
        });
    }

  private:
    const PythonReference engine_;
};

py::dict blob_to_dict(const Blob& blob) {
    py::list bindings;
    for (const BlobBinding& binding : blob.bindings) {
        bindings.append(py::dict(py::arg("name") = binding.name, py::arg("dtype") = binding.dtype,
                                 py::arg("shape") = binding.shape,
                                 py::arg("is_input") = binding.is_input));
    }
    py::list aliases;
    for (const AliasedIo& alias : blob.aliased_io) {
        aliases.append(py::dict(py::arg("output") = alias.output, py::arg("input") = alias.input,
                                py::arg("kind") = alias.kind));
    }
    py::dict fields;
    fields["bindings"] = bindings;
    fields["aliased_io"] = aliases;
    fields["hardware_compatible"] = blob.hardware_compatible;
    fields["device_id"] = blob.device_id;
    fields["metadata"] = blob.metadata;
    fields["target_platform"] = blob.target_platform;
    return fields;
}

py::dict reference_to_dict(const PlanReference& reference) {
    py::dict fields;
    fields["metadata"] = reference.metadata;
    fields["inputs"] = reference.inputs;
    fields["outputs"] = reference.outputs;
    fields["plan_key"] = reference.key();
    fields["plan_size"] = reference.plan_size;
    fields["plan_sha256"] = reference.plan_sha256;
    return fields;
}

py::dict payload_to_dict(const Payload& payload) {
    if (const auto* const reference = std::get_if<PlanReference>(&payload)) {
        return reference_to_dict(*reference);
    }
    return blob_to_dict(std::get<Blob>(payload));
}

// The payload without its plan, and where that is in it (None for one that refers to a plan
// elsewhere): for those who only look.
py::tuple read_payload(const py::buffer& payload) {
    const py::buffer_info info = payload.request();
    if (info.itemsize != 1 || info.ndim != 1 || info.strides[0] != 1) {
        throw BlobError(
            "delegate payload: expected contiguous bytes, found others; pass "
            "memoryview(buffer).cast('B')");
    }
    const auto* const data = static_cast<const std::byte*>(info.ptr);
    const std::span bytes(data, static_cast<std::size_t>(info.size));
    if (is_reference(bytes)) {
        return py::make_tuple(reference_to_dict(parse_reference(bytes)), py::none());
    }
    const Blob blob = parse_blob(bytes);
    return py::make_tuple(blob_to_dict(blob), blob.plan.data() - data);
}

void register_delegate_engines(py::function open) {
    register_raw_engines([open = PythonReference(std::move(open))](
                             const Payload& payload, std::shared_ptr<const Plan> plan) {
        return with_python([&]() -> std::shared_ptr<RawEngine> {
            return std::make_shared<PythonRawEngine>(open.get()(
                payload_to_dict(payload), std::const_pointer_cast<Plan>(std::move(plan))));
        });
    });
}

}  // namespace

void bind_delegate(py::module_& module) {
    OriginalStreams::capture();
    module.def("read_payload", &read_payload, py::arg("payload"));
    module.def("register_delegate_engines", &register_delegate_engines, py::arg("open"));
    module.def("forget_delegate_error", [] {
        take_delegate_error();
        keep_interruption(nullptr);
    });
    py::enum_<LogMode>(module, "LogMode")
        .value("UNEXPLAINED", LogMode::kUnexplained)
        .value("ALL", LogMode::kAll)
        .value("NONE", LogMode::kNone);
    module.def("set_log_mode", &set_log_mode, py::arg("mode"));
    module.def("begin_log_capture", &begin_log_capture);
    module.def("end_log_capture", &end_log_capture);
    module.def("take_log", [] { return py::bytes(take_log()).attr("decode")("utf-8", "replace"); });
    module.def("take_interruption", [] {
        PyObject* const value = std::exchange(interruption, nullptr);
        return value == nullptr ? py::object(py::none()) : py::reinterpret_steal<py::object>(value);
    });
    module.def("take_delegate_error", [] {
        const DelegateError error = take_delegate_error();
        // A message may hold what a damaged file held.
        return py::make_tuple(error.kind,
                              py::bytes(error.message).attr("decode")("utf-8", "replace"));
    });
}

}  // namespace trt_runtime

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "build_info.h"
#include "capabilities.h"
#include "delegate/blob.h"
#include "engine.h"
#include "errors.h"
#include "hex.h"
#include "mapped_file.h"
#include "python_delegate.h"
#include "python_executor.h"
#include "python_gil.h"
#include "python_reference.h"
#include "record_values.h"
#include "sha256.h"
#include "state.h"
#include "stats.h"

// `trt_runtime._native`: what the Python half needs of the library and torch does not offer.
namespace py = pybind11;

namespace trt_runtime {
namespace {

py::buffer_info view(const std::span<const std::byte> bytes) {
    auto* const data = const_cast<std::byte*>(bytes.data());  // read-only: the flag below
    return {data, 1, "B", 1, {static_cast<py::ssize_t>(bytes.size())}, {1}, /*readonly=*/true};
}

// Makes a plan over the memory of `source`, which stays alive (and, as a buffer, locked) as long as
// the plan does. The caller has made sure that no one can write to it.
std::shared_ptr<Plan> share_plan(const py::buffer& source) {
    auto info = std::make_unique<py::buffer_info>(source.request());
    TRT_RUNTIME_CHECK(PlanError, info->itemsize == 1 && info->ndim == 1 && info->strides[0] == 1,
                      "plan: expected contiguous bytes, found ", info->ndim,
                      " dimensions of items of ", info->itemsize,
                      " bytes; pass memoryview(buffer).cast('B')");
    const auto* const data = static_cast<const std::byte*>(info->ptr);
    const auto size = static_cast<std::size_t>(info->size);
    std::shared_ptr<const void> owner(info.release(), [](py::buffer_info* const owned) {
        release_with_gil([&] { delete owned; });
    });
    return std::make_shared<Plan>(data, size, std::move(owner));
}

// Makes a plan over a copy of `source`.
std::shared_ptr<Plan> copy_plan(const py::buffer& source) {
    const py::buffer_info info = source.request();
    const auto* const data = static_cast<const std::byte*>(info.ptr);
    count(Counter::kPlanCopies);
    return std::make_shared<Plan>(std::vector<std::byte>(data, data + info.size * info.itemsize));
}

// `function(memoryview) -> bytes`, which must not keep the view.
void register_python_sha256(py::function function) {
    const PythonReference held{std::move(function)};
    register_sha256(
        std::make_shared<const Sha256Function>([held](const std::span<const std::byte> bytes) {
            const auto digest = with_gil([&] {
                const auto memory = py::memoryview::from_memory(
                    bytes.data(), static_cast<py::ssize_t>(bytes.size()));
                auto result = held.get()(memory).cast<std::string>();
                memory.attr("release")();
                return result;
            });
            Sha256 result;
            TORCH_CHECK(digest.size() == result.size(), "sha256 of a plan: expected ",
                        result.size(), " bytes from the registered function, found ",
                        digest.size());
            std::memcpy(result.data(), digest.data(), result.size());
            return result;
        }));
}

// `function() -> bool`.
void register_python_takes_tensors(py::function function) {
    const PythonReference held{std::move(function)};
    register_takes_tensors(std::make_shared<const TakesTensors>(
        [held] { return with_gil([&] { return held.get()().cast<bool>(); }); }));
}

py::object make_engine(std::shared_ptr<Plan> plan, const py::dict& fields) {
    return torch::jit::toPyObject(
        c10::IValue(c10::make_intrusive<Engine>(record_from_dict(fields), std::move(plan))));
}

c10::intrusive_ptr<Engine> engine_of(const py::handle& object) {
    return torch::jit::toCustomClass<Engine>(object);
}

py::dict stats_dict() {
    py::dict result;
    for (const auto& [name, value] : stats()) result[py::str(name)] = value;
    return result;
}

// Python classes of trt_runtime.errors by the name that they share with the native ones.
void translate_errors(const std::exception_ptr error) {
    const auto set = [](const char* const name, const char* const message) {
        const py::object type = py::module_::import("trt_runtime.errors").attr(name);
        PyErr_SetString(type.ptr(), message);
    };
    const auto raise = [&](const char* const name, const c10::Error& cause) {
        set(name, cause.what_without_backtrace());
    };
    try {
        if (error) std::rethrow_exception(error);
    } catch (const RecordError& cause) {
        raise("RecordError", cause);
    } catch (const PlanError& cause) {
        raise("PlanError", cause);
    } catch (const InputError& cause) {
        raise("InputError", cause);
    } catch (const ExecutorUnavailableError& cause) {
        raise("ExecutorUnavailableError", cause);
    } catch (const BlobError& cause) {
        set("ProgramError", cause.what());
    }
}

}  // namespace

PYBIND11_MODULE(_native, module) {
    // Torch's bindings are built with the same pybind11 internals, so this also serves errors that
    // leave through torch.ops and through ScriptObject methods.
    py::register_exception_translator(&translate_errors);

    py::class_<Plan, std::shared_ptr<Plan>>(module, "Plan", py::buffer_protocol())
        // Immutable, so a copy of what holds it holds the same.
        .def("__deepcopy__", [](const py::object& plan, const py::dict&) { return plan; })
        .def(
            "__reduce_ex__",
            [](const py::object& plan, const int protocol) {
                return py::module_::import("trt_runtime.state").attr("reduce_plan")(plan, protocol);
            })
        .def_property_readonly("tensor",
                               [](const std::shared_ptr<Plan>& plan) { return tensor_over(plan); })
        .def_buffer([](const Plan& plan) { return view(plan.bytes()); })
        .def_property_readonly(
            "format", [](const Plan& plan) { return std::string(to_string(plan.format())); })
        .def_property_readonly(
            "payload_offset",
            [](const Plan& plan) { return plan.payload().data() - plan.bytes().data(); })
        .def_property_readonly("model_size", &Plan::model_size)
        .def_property_readonly("payload_sha256",
                               [](const Plan& plan) {
                                   const auto digest = plan.payload_sha256();
                                   return py::bytes(reinterpret_cast<const char*>(digest.data()),
                                                    digest.size());
                               })
        .def_property_readonly("sha256", [](const Plan& plan) { return to_hex(plan.sha256()); })
        .def_property("vouches_for_itself", &Plan::vouches_for_itself,
                      &Plan::set_vouches_for_itself)
        .def_property_readonly("verified_sha256",
                               [](const Plan& plan) { return to_hex(plan.verified_sha256()); });
    module.def("share_plan", &share_plan, py::arg("source"));
    module.def("copy_plan", &copy_plan, py::arg("source"));
    module.def(
        "map_plan",
        [](const int file, const std::size_t offset, const std::optional<std::size_t> size) {
            return map_plan(file, {offset, size});
        },
        py::arg("file"), py::arg("offset") = 0, py::arg("size") = py::none());
    module.def(
        "plan_from_tensor",
        [](const at::Tensor& tensor) {
            return std::const_pointer_cast<Plan>(plan_from_tensor(tensor));
        },
        py::arg("tensor"));

    module.def("make_engine", &make_engine, py::arg("plan"), py::arg("fields"));
    module.def(
        "deserialize_engine",
        [](const std::vector<std::string>& slots) {
            return torch::jit::toPyObject(c10::IValue(Engine::deserialize(slots)));
        },
        py::arg("slots"));
    module.def(
        "restore_engine",
        [](const std::vector<std::string>& slots, std::shared_ptr<Plan> plan) {
            return torch::jit::toPyObject(c10::IValue(Engine::restore(slots, std::move(plan))));
        },
        py::arg("slots"), py::arg("plan"));
    module.def(
        "parse_record",
        [](const std::vector<std::string>& slots) {
            const Record record = parse_record(slots);
            check_record(record);
            return record_to_dict(record);
        },
        py::arg("slots"));
    module.def(
        "check_record", [](const py::dict& fields) { check_record(record_from_dict(fields)); },
        py::arg("fields"));
    module.def(
        "engine_fields",
        [](const py::handle& engine) { return record_to_dict(engine_of(engine)->record()); },
        py::arg("engine"));
    // The method of the object does the same, but torch makes a RuntimeError of any error in one.
    module.def(
        "engine_record",
        [](const py::handle& engine) {
            return torch::jit::toPyObject(c10::IValue(record_values(engine_of(engine)->record())));
        },
        py::arg("engine"));
    module.def(
        "engine_plan",
        [](const py::handle& engine) {
            return std::const_pointer_cast<Plan>(engine_of(engine)->plan());
        },
        py::arg("engine"));

    module.def("register_executor", &register_python_executor, py::arg("format"), py::arg("check"),
               py::arg("load"));
    module.def("register_takes_tensors", &register_python_takes_tensors, py::arg("function"));
    module.def("register_sha256", &register_python_sha256, py::arg("function"));
    bind_delegate(module);

    module.def("capabilities",
               [] { return std::vector<std::string>(kCapabilities.begin(), kCapabilities.end()); });
    module.def("stats", &stats_dict);
    module.def("count_plan_copy", [] { count(Counter::kPlanCopies); });
    module.def("count_plan_hash", [] { count(Counter::kPlanHashes); });
    module.def("count_executor_load", [] { count(Counter::kExecutorLoads); });
    module.def("build_info", [] {
        const BuildInfo info = build_info();
        py::dict result;
        result["version"] = info.version;
        result["torch"] = info.torch;
        result["native_sha256"] = info.native_sha256;
        return result;
    });
}

}  // namespace trt_runtime

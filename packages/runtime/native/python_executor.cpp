#include "python_executor.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <utility>
#include <vector>

#include "errors.h"
#include "executor.h"
#include "python_gil.h"
#include "python_reference.h"

namespace py = pybind11;

namespace trt_runtime {
namespace {

// A record from a file may hold any bytes, a Python str only text.
py::dict checked_dict(const Record& record) {
    try {
        return record_to_dict(record);
    } catch (const py::error_already_set& error) {
        TRT_RUNTIME_CHECK(RecordError, !error.matches(PyExc_UnicodeDecodeError),
                          "engine record: expected UTF-8 text, found other bytes (", error.what(),
                          "); the record is damaged, make it again");
        throw;
    }
}

// All of these are called without the GIL and without a lock, and take the GIL themselves. A Python
// exception leaves as it is: torch's bindings hand py::error_already_set back to Python.
class PythonExecutor : public Executor {
  public:
    explicit PythonExecutor(py::object run) : run_(std::move(run)) {}

    std::vector<at::Tensor> execute(const std::vector<at::Tensor>& inputs) override {
        return with_gil([&] { return run_.get()(inputs).cast<std::vector<at::Tensor>>(); });
    }

  private:
    const PythonReference run_;
};

class PythonExecutorFactory : public ExecutorFactory {
  public:
    PythonExecutorFactory(py::function check, py::function load)
        : check_(std::move(check)), load_(std::move(load)) {}

    void check(const Record& record, const Plan& plan) override {
        with_gil(
            [&] { check_.get()(checked_dict(record), to_string(plan.format()), plan.size()); });
    }

    std::shared_ptr<Executor> load(const Record& record,
                                   std::shared_ptr<const Plan> plan) override {
        return with_gil([&] {
            return std::make_shared<PythonExecutor>(load_.get()(
                record_to_dict(record), std::const_pointer_cast<Plan>(std::move(plan))));
        });
    }

  private:
    const PythonReference check_;
    const PythonReference load_;
};

}  // namespace

py::dict record_to_dict(const Record& record) {
    py::list aliases;
    for (const AliasedIo& alias : record.aliased_io) {
        aliases.append(py::dict(py::arg("output") = alias.output, py::arg("input") = alias.input,
                                py::arg("kind") = alias.kind));
    }
    py::dict fields;
    fields["name"] = record.name;
    fields["device"] = record.device;
    fields["inputs"] = record.inputs;
    fields["outputs"] = record.outputs;
    fields["hardware_compatible"] = record.hardware_compatible;
    fields["metadata"] = record.metadata;
    fields["target_platform"] = record.target_platform;
    fields["requires_output_allocator"] = record.requires_output_allocator;
    fields["resource_allocation_strategy"] = record.dynamic_allocation ? "dynamic" : "static";
    fields["requires_native_multidevice"] = record.requires_native_multidevice;
    fields["aliased_io"] = aliases;
    return fields;
}

Record record_from_dict(const py::dict& fields) {
    Record record{
        .name = fields["name"].cast<std::string>(),
        .device = fields["device"].cast<std::string>(),
        .inputs = fields["inputs"].cast<std::vector<std::string>>(),
        .outputs = fields["outputs"].cast<std::vector<std::string>>(),
        .hardware_compatible = fields["hardware_compatible"].cast<bool>(),
        .metadata = fields["metadata"].cast<std::string>(),
        .target_platform = fields["target_platform"].cast<std::string>(),
        .requires_output_allocator = fields["requires_output_allocator"].cast<bool>(),
        .dynamic_allocation =
            fields["resource_allocation_strategy"].cast<std::string>() == "dynamic",
        .requires_native_multidevice = fields["requires_native_multidevice"].cast<bool>(),
        .aliased_io = {},
    };
    for (const py::handle& alias : fields["aliased_io"]) {
        record.aliased_io.push_back({alias["output"].cast<std::string>(),
                                     alias["input"].cast<std::string>(),
                                     alias["kind"].cast<std::string>()});
    }
    return record;
}

void register_python_executor(const std::string& format, py::function check, py::function load) {
    register_executor(parse_plan_format(format),
                      std::make_shared<PythonExecutorFactory>(std::move(check), std::move(load)));
}

}  // namespace trt_runtime

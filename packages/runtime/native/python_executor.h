#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "record.h"

namespace trt_runtime {

// The record's fields under the names of docs/engine-record.md, "Record as a mapping", with the
// device and the metadata as the texts of their slots.
pybind11::dict record_to_dict(const Record& record);
Record record_from_dict(const pybind11::dict& fields);

// Makes Python callables the executor of a plan format:
// `check(fields: dict, format: str, size: int) -> None` and
// `load(fields: dict, plan: Plan) -> Callable[[list[Tensor]], list[Tensor]]`. Throws PlanError for
// a format that is not known.
void register_python_executor(const std::string& format, pybind11::function check,
                              pybind11::function load);

}  // namespace trt_runtime

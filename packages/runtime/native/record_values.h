#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "export.h"
#include "record.h"

namespace trt_runtime {

// A record by field name, as in docs/engine-record.md, "Record as a mapping": what
// EngineInfo.to_mapping() gives in Python. Throws RecordError where the metadata holds what no
// IValue can (an integer beyond 64 bits), or nests too deeply for those who walk it.
TRT_RUNTIME_API c10::Dict<std::string, c10::IValue> record_values(const Record& record);

}  // namespace trt_runtime

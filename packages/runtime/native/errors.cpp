#include "errors.h"

namespace trt_runtime {

// The destructors live here so that each class has one vtable and one type_info, in this library:
// an exception thrown here must be caught by type in `_native`.
RecordError::~RecordError() = default;
PlanError::~PlanError() = default;
InputError::~InputError() = default;
ExecutorUnavailableError::~ExecutorUnavailableError() = default;
ExecutionError::~ExecutionError() = default;
BusyError::~BusyError() = default;

}  // namespace trt_runtime

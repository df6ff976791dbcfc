#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <cstdint>

#include "export.h"

// Errors with a type of their own, so that Python can raise `trt_runtime.RecordError` rather than
// a bare RuntimeError. Where no translator is registered they are c10::Error, as TORCH_CHECK's are.
namespace trt_runtime {

class TRT_RUNTIME_API RecordError : public c10::Error {
  public:
    using c10::Error::Error;
    ~RecordError() override;
};

class TRT_RUNTIME_API PlanError : public c10::Error {
  public:
    using c10::Error::Error;
    ~PlanError() override;
};

class TRT_RUNTIME_API InputError : public c10::Error {
  public:
    using c10::Error::Error;
    ~InputError() override;
};

class TRT_RUNTIME_API ExecutorUnavailableError : public c10::Error {
  public:
    using c10::Error::Error;
    ~ExecutorUnavailableError() override;
};

class TRT_RUNTIME_API ExecutionError : public c10::Error {
  public:
    using c10::Error::Error;
    ~ExecutionError() override;
};

// Something that one thread uses at a time is in use. In Python an ExecutionError.
class TRT_RUNTIME_API BusyError : public c10::Error {
  public:
    using c10::Error::Error;
    ~BusyError() override;
};

}  // namespace trt_runtime

// TORCH_CHECK with a type. Messages say what was expected, what was found and what mends it.
#define TRT_RUNTIME_CHECK(error, condition, ...)                                    \
    do {                                                                            \
        if (C10_UNLIKELY(!(condition))) {                                           \
            throw error({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, \
                        c10::str(__VA_ARGS__));                                     \
        }                                                                           \
    } while (false)

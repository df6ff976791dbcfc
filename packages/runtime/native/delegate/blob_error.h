#pragma once

#include <stdexcept>

#include "../export.h"

namespace trt_runtime {

// The payload of a delegate is damaged, or from another version. No header of torch is needed for
// it.
class TRT_RUNTIME_API BlobError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
    ~BlobError() override;
};

}  // namespace trt_runtime

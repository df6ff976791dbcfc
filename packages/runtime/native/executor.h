#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "export.h"
#include "plan.h"
#include "record.h"

namespace trt_runtime {

// A plan that has been deserialized and can run. May be called from several threads at once.
class TRT_RUNTIME_API Executor {
  public:
    Executor() = default;
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    virtual ~Executor();

    virtual std::vector<at::Tensor> execute(const std::vector<at::Tensor>& inputs) = 0;
};

// What a plan format needs from outside this library: an executor, and the reading of the record's
// metadata. Called without any lock held, since an implementation may enter Python.
class TRT_RUNTIME_API ExecutorFactory {
  public:
    ExecutorFactory() = default;
    ExecutorFactory(const ExecutorFactory&) = delete;
    ExecutorFactory& operator=(const ExecutorFactory&) = delete;
    virtual ~ExecutorFactory();

    // Called when an engine is made; throws if the metadata is no good. Reads no plan bytes.
    virtual void check(const Record& record, const Plan& plan) = 0;
    // Called at the first execution. Must not keep the engine alive: the engine keeps the executor.
    virtual std::shared_ptr<Executor> load(const Record& record,
                                           std::shared_ptr<const Plan> plan) = 0;
};

// Sets the factory of a format; a later one replaces it.
TRT_RUNTIME_API void register_executor(PlanFormat format, std::shared_ptr<ExecutorFactory> factory);

// Null if no one registered a factory.
std::shared_ptr<ExecutorFactory> find_executor(PlanFormat format);

}  // namespace trt_runtime

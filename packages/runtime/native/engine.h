#pragma once

#include <torch/custom_class.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "executor.h"
#include "export.h"
#include "plan.h"
#include "record.h"

namespace trt_runtime {

// The plan as a uint8 tensor of shape [size] on the CPU, over the plan's own memory: no copy. It
// and its views keep the plan alive and cannot be resized.
TRT_RUNTIME_API at::Tensor tensor_over(std::shared_ptr<const Plan> plan);
// The plan that such a tensor's memory belongs to; null for any other memory.
std::shared_ptr<const Plan> plan_of(const c10::DataPtr& memory);

// A plan and its record: `torch.classes.trt_runtime.Engine`. Immutable but for the executor, which
// the first execution makes.
class TRT_RUNTIME_API Engine : public torch::CustomClassHolder {
  public:
    // Throws RecordError if the record is no good or does not belong to the plan.
    Engine(Record record, std::shared_ptr<const Plan> plan);

    // From the 13 strings of serialize(). Throws RecordError or PlanError.
    static c10::intrusive_ptr<Engine> deserialize(const std::vector<std::string>& slots);

    // From such strings with nothing in the engine slot, and the plan beside them. The same errors.
    static c10::intrusive_ptr<Engine> restore(const std::vector<std::string>& slots,
                                              std::shared_ptr<const Plan> plan);

    // The full record, the plan in base64.
    std::vector<std::string> serialize() const;

    // The record without the plan: the engine slot is nullopt. Touches no byte of the plan.
    std::vector<std::optional<std::string>> serialize_metadata_only() const;

    // A tensor over the plan, for whoever asks.
    //
    // A tensor cannot be read-only, so this is a contract: who writes to it damages the plan. That
    // is found by the plan's sha256 when the plan is first run (docs/engine-record.md): after this,
    // one that was hashed before is hashed again. An engine that runs already reads its weights
    // there.
    at::Tensor plan_tensor() const;

    const Record& record() const noexcept { return record_; }
    const std::shared_ptr<const Plan>& plan() const noexcept { return plan_; }

    std::vector<at::Tensor> execute(const std::vector<at::Tensor>& inputs);

  private:
    std::shared_ptr<Executor> executor();

    const Record record_;
    const std::shared_ptr<const Plan> plan_;
    std::mutex executor_mutex_;  // guards the pointer, never the making of an executor
    std::shared_ptr<Executor> executor_;
};

}  // namespace trt_runtime

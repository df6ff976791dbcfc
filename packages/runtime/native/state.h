#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>

#include "engine.h"
#include "export.h"

// What an engine is pickled as: docs/engine-record.md, "State".
namespace trt_runtime {

// Whether the code that asks for a state right now takes a tensor in it. Called without any lock
// held, since it may enter Python. Without one registered no code does.
using TakesTensors = std::function<bool()>;
TRT_RUNTIME_API void register_takes_tensors(std::shared_ptr<const TakesTensors> function);

// `(1, slots, plan)`, the plan a uint8 tensor over the engine's own memory and its slot empty:
// nothing is encoded or copied. For those who do not take that, the 13 strings of
// Engine::serialize().
c10::IValue get_state(const Engine& engine);

// Of either form. Throws RecordError or PlanError, whatever the state is.
c10::intrusive_ptr<Engine> set_state(const c10::IValue& state);

// A plan over the tensor's memory if it is a plan's own (then that very plan) or was allocated by
// torch and can be resized by no one, as torch's unpickler makes them; else over a copy. Throws
// PlanError for what is not uint8, of one dimension, contiguous and on the CPU.
TRT_RUNTIME_API std::shared_ptr<const Plan> plan_from_tensor(const at::Tensor& tensor);

}  // namespace trt_runtime

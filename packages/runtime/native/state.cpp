#include "state.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"
#include "registered.h"
#include "stats.h"

namespace trt_runtime {
namespace {

constexpr std::int64_t kTensorState = 1;
constexpr std::string_view kMend = "; the file is damaged or from a later version, save it again";

Registered<TakesTensors>& registered() {
    static auto* const instance = new Registered<TakesTensors>;
    return *instance;
}

std::vector<std::string> strings(const c10::IValue& list) {
    std::vector<std::string> result;
    for (const c10::IValue& item : list.toListRef()) {
        TRT_RUNTIME_CHECK(RecordError, item.isString(), "engine state: expected ", kRecordSlots,
                          " strings, found a ", item.tagKind(), " at index ", result.size(), kMend);
        result.push_back(item.toStringRef());
    }
    return result;
}

bool has_memory(const at::Tensor& tensor) {
    // Fakes, and tensors that stand for zeros, say that they are on the CPU and have no bytes
    // there.
    return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
           !tensor.key_set().has_any(
               c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::ZeroTensor})) &&
           tensor.has_storage();
}

}  // namespace

void register_takes_tensors(std::shared_ptr<const TakesTensors> function) {
    registered().set(std::move(function));
}

std::shared_ptr<const Plan> plan_from_tensor(const at::Tensor& tensor) {
    TRT_RUNTIME_CHECK(
        PlanError,
        has_memory(tensor) && tensor.scalar_type() == at::kByte && tensor.dim() == 1 &&
            tensor.is_contiguous(),
        "plan: expected a contiguous uint8 tensor of one dimension on the CPU, found ",
        tensor.toString(), " of ", tensor.defined() ? tensor.dim() : 0, " dimensions on ",
        tensor.defined() ? tensor.device().str() : "no device", "; pass the plan's bytes");
    const auto size = static_cast<std::size_t>(tensor.numel());
    const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
    const c10::DataPtr& memory = tensor.storage().data_ptr();
    if (const auto plan = plan_of(memory)) {
        if (plan->bytes().data() == data && plan->size() == size) return plan;
    }
    const auto deleter = c10::GetCPUAllocator()->raw_deleter();
    const bool is_fixed =
        !tensor.storage().resizable() && deleter != nullptr && memory.get_deleter() == deleter;
    if (is_fixed)
        return std::make_shared<const Plan>(data, size, std::make_shared<at::Tensor>(tensor));
    count(Counter::kPlanCopies);
    return std::make_shared<const Plan>(std::vector<std::byte>(data, data + size));
}

c10::IValue get_state(const Engine& engine) {
    const auto takes_tensors = registered().get();
    if (takes_tensors == nullptr || !(*takes_tensors)()) return engine.serialize();
    std::vector<std::string> slots;
    slots.reserve(kRecordSlots);
    for (auto& slot : engine.serialize_metadata_only()) {
        slots.push_back(std::move(slot).value_or(std::string()));
    }
    return std::make_tuple(kTensorState, std::move(slots), tensor_over(engine.plan()));
}

c10::intrusive_ptr<Engine> set_state(const c10::IValue& state) {
    if (state.isList()) return Engine::deserialize(strings(state));
    TRT_RUNTIME_CHECK(RecordError, state.isTuple(),
                      "engine state: expected a list of strings, or a tuple with the plan as a "
                      "tensor, found a ",
                      state.tagKind(), kMend);
    const auto& parts = state.toTupleRef().elements();
    TRT_RUNTIME_CHECK(
        RecordError, !parts.empty() && parts[0].isInt() && parts[0].toInt() == kTensorState,
        "engine state: expected version ", kTensorState, ", found ",
        parts.empty() || !parts[0].isInt() ? "none" : std::to_string(parts[0].toInt()),
        "; install a trt-runtime that reads it: pip install -U trt-runtime");
    TRT_RUNTIME_CHECK(RecordError, parts.size() == 3 && parts[1].isList() && parts[2].isTensor(),
                      "engine state: expected a version, a list of strings and a tensor, found a "
                      "tuple of ",
                      parts.size(), " of other types", kMend);
    return Engine::restore(strings(parts[1]), plan_from_tensor(parts[2].toTensor()));
}

}  // namespace trt_runtime

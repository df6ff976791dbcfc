#include "engine.h"

#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <utility>

#include "base64.h"
#include "errors.h"
#include "stats.h"

namespace trt_runtime {

namespace {

using HeldPlan = std::shared_ptr<const Plan>;

// Its address is what tells the memory of a plan from any other.
void release(void* const held) { delete static_cast<HeldPlan*>(held); }

}  // namespace

at::Tensor tensor_over(std::shared_ptr<const Plan> plan) {
    auto* const data = const_cast<std::byte*>(plan->bytes().data());  // the contract in engine.h
    const auto size = static_cast<std::int64_t>(plan->size());
    return at::for_blob(data, {size})
        .context(new HeldPlan(std::move(plan)), &release)
        .options(at::kByte)
        .make_tensor();
}

std::shared_ptr<const Plan> plan_of(const c10::DataPtr& memory) {
    if (memory.get_deleter() != &release) return nullptr;
    return *static_cast<const HeldPlan*>(memory.get_context());
}

Engine::Engine(Record record, std::shared_ptr<const Plan> plan)
    : record_(std::move(record)), plan_(std::move(plan)) {
    check_record(record_);
    if (const auto factory = find_executor(plan_->format())) factory->check(record_, *plan_);
}

c10::intrusive_ptr<Engine> Engine::deserialize(const std::vector<std::string>& slots) {
    Record record = parse_record(slots);  // checks the length, so that the next line may index
    auto plan = std::make_shared<const Plan>(base64_decode(slots[kEngineSlot]));
    auto engine = c10::make_intrusive<Engine>(std::move(record), std::move(plan));
    count(Counter::kDeserializations);
    return engine;
}

c10::intrusive_ptr<Engine> Engine::restore(const std::vector<std::string>& slots,
                                           std::shared_ptr<const Plan> plan) {
    Record record = parse_record(slots);
    TRT_RUNTIME_CHECK(
        RecordError, slots[kEngineSlot].empty(),
        "engine slot: expected nothing, since the plan comes beside the record, found ",
        slots[kEngineSlot].size(), " characters; make the record again");
    return c10::make_intrusive<Engine>(std::move(record), std::move(plan));
}

std::vector<std::string> Engine::serialize() const {
    count(Counter::kSerializations);
    std::vector<std::string> strings;
    strings.reserve(kRecordSlots);
    for (auto& slot : serialize_metadata_only()) {
        strings.push_back(slot ? std::move(*slot) : base64_encode(plan_->bytes()));
    }
    return strings;
}

std::vector<std::optional<std::string>> Engine::serialize_metadata_only() const {
    return to_slots(record_);
}

at::Tensor Engine::plan_tensor() const {
    plan_->given_away();
    return tensor_over(plan_);
}

std::vector<at::Tensor> Engine::execute(const std::vector<at::Tensor>& inputs) {
    return executor()->execute(inputs);
}

std::shared_ptr<Executor> Engine::executor() {
    {
        const std::lock_guard lock(executor_mutex_);
        if (executor_) return executor_;
    }
    const auto factory = find_executor(plan_->format());
    TRT_RUNTIME_CHECK(ExecutorUnavailableError, factory != nullptr, "engine '", record_.name,
                      "': expected an executor for plans of format '", to_string(plan_->format()),
                      "', found none; import trt_runtime in this process");
    // No lock here: loading may enter Python, and a thread that holds the GIL may wait for the
    // lock. Two threads may thus both load; the first to come back wins and the other's is dropped
    // below, after the lock.
    auto loaded = factory->load(record_, plan_);
    const std::lock_guard lock(executor_mutex_);
    if (!executor_) {
        executor_ = loaded;
        count(Counter::kExecutorLoads);
    }
    return executor_;
}

}  // namespace trt_runtime

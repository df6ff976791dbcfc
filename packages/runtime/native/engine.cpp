#include "engine.h"

#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <utility>

#include "base64.h"
#include "errors.h"
#include "stats.h"

namespace trt_runtime {

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
    auto* const data = const_cast<std::byte*>(plan_->bytes().data());  // the contract in engine.h
    return at::from_blob(
        data, {static_cast<std::int64_t>(plan_->size())}, [plan = plan_](void*) {}, at::kByte);
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

#include <map>
#include <mutex>
#include <utility>

#include "executor.h"

namespace trt_runtime {
namespace {

struct Registry {
    std::mutex mutex;
    std::map<PlanFormat, std::shared_ptr<ExecutorFactory>> factories;
};

// Never destroyed: engines may die after the destructors of static objects have run.
Registry& registry() {
    static auto* const instance = new Registry;
    return *instance;
}

}  // namespace

Executor::~Executor() = default;
ExecutorFactory::~ExecutorFactory() = default;

void register_executor(const PlanFormat format, std::shared_ptr<ExecutorFactory> factory) {
    Registry& known = registry();
    {
        const std::lock_guard lock(known.mutex);
        std::swap(known.factories[format], factory);
    }
    // The one that was replaced dies here, outside the lock: it may need the GIL for that.
}

std::shared_ptr<ExecutorFactory> find_executor(const PlanFormat format) {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    const auto found = known.factories.find(format);
    return found == known.factories.end() ? nullptr : found->second;
}

}  // namespace trt_runtime

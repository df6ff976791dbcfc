#include "raw_engine.h"

#include <mutex>
#include <utility>

namespace trt_runtime {
namespace {

struct Registry {
    std::mutex mutex;
    OpenRawEngine open;
};

// Never destroyed: what it holds may need an interpreter, which is gone when static objects are.
Registry& registry() {
    static auto* const instance = new Registry;
    return *instance;
}

}  // namespace

BoundEngine::~BoundEngine() = default;
RawEngine::~RawEngine() = default;

void register_raw_engines(OpenRawEngine open) {
    Registry& known = registry();
    {
        const std::lock_guard lock(known.mutex);
        known.open.swap(open);
    }
    // The one that was replaced dies here, outside the lock: it may need the GIL for that.
}

OpenRawEngine find_raw_engines() {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    return known.open;
}

}  // namespace trt_runtime

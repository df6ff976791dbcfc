#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace trt_runtime {

// What another library hands over for this one to call: set rarely, from any thread. Static ones
// are never destroyed (`static auto* const x = new Registered<T>`), since engines may be used after
// the destructors of static objects have run.
template <typename T>
class Registered {
  public:
    void set(std::shared_ptr<const T> value) {
        {
            const std::lock_guard lock(mutex_);
            std::swap(value_, value);
        }
        // The one that was replaced dies here, outside the lock: it may need the GIL for that.
    }

    // Null if there is none. What it holds is called without the lock.
    std::shared_ptr<const T> get() {
        const std::lock_guard lock(mutex_);
        return value_;
    }

  private:
    std::mutex mutex_;
    std::shared_ptr<const T> value_;
};

}  // namespace trt_runtime

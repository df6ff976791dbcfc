#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interface.h"
#include "raw_engine.h"

namespace trt_runtime {

// Whether a call is in an instance, and whether another one has come meanwhile.
enum class Use : std::uint8_t { kFree, kBusy, kDisturbed };

// Bytes and who keeps them alive.
struct OwnedBytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
};

// Finds a plan by its key in the program's named data.
using FindPlan = std::function<std::optional<OwnedBytes>(const std::string& key)>;

// One delegate of one loaded method.
class DelegateInstance {
  public:
    // Throws BlobError, PlanError, RecordError or ExecutorUnavailableError.
    DelegateInstance(const OwnedBytes& payload, const FindPlan& find);

    // Throws InputError, BusyError, or what the engine throws.
    void execute(std::span<const TrtDelegateTensor> arguments, const TrtDelegateResizer& resizer);

  private:
    // What was bound last. The memory of a loaded method is planned once and so its arguments are
    // mostly the same from call to call, while binding them anew costs as much as a small engine.
    struct Binding {
        std::vector<std::int64_t> key;
        std::vector<RawEngine::Sizes> output_sizes;
        std::shared_ptr<BoundEngine> engine;
    };

    void read_key(std::span<const TrtDelegateTensor> arguments);
    const Binding* find_binding();
    Binding bind(std::span<const TrtDelegateTensor> arguments, const TrtDelegateResizer& resizer);

    std::size_t inputs_ = 0;
    std::size_t outputs_ = 0;
    std::shared_ptr<RawEngine> engine_;
    std::atomic<Use> use_ = Use::kFree;
    std::vector<std::int64_t> key_;  // of the current call; a member to keep its memory
    std::vector<Binding> bindings_;  // the latest first
};

}  // namespace trt_runtime

#include "sha256.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <string_view>
#include <utility>

namespace trt_runtime {
namespace {

struct Registry {
    std::mutex mutex;
    std::shared_ptr<const Sha256Function> function;
};

// Never destroyed: plans may be hashed after the destructors of static objects have run.
Registry& registry() {
    static auto* const instance = new Registry;
    return *instance;
}

}  // namespace

void register_sha256(std::shared_ptr<const Sha256Function> function) {
    {
        const std::lock_guard lock(registry().mutex);
        std::swap(registry().function, function);
    }
    // The one that was replaced dies here, outside the lock: it may need the GIL for that.
}

Sha256 sha256(const std::span<const std::byte> bytes) {
    std::shared_ptr<const Sha256Function> function;
    {
        const std::lock_guard lock(registry().mutex);
        function = registry().function;
    }
    TORCH_CHECK(function != nullptr,
                "sha256 of a plan: expected a function that computes it, found none; import "
                "trt_runtime in this process");
    return (*function)(bytes);
}

std::string to_hex(const Sha256& digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(digest.size() * 2);
    for (const std::byte byte : digest) {
        const auto value = std::to_integer<unsigned>(byte);
        text += kDigits[value >> 4];
        text += kDigits[value & 15];
    }
    return text;
}

}  // namespace trt_runtime

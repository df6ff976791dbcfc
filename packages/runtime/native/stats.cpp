#include "stats.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace trt_runtime {
namespace {

constexpr auto kCounters = static_cast<std::size_t>(Counter::kCount);

constexpr std::array<std::string_view, kCounters> kNames = {
    "serializations", "deserializations", "base64_encodes", "base64_decodes",
    "plan_copies",    "plan_hashes",      "executor_loads", "delegate_bindings",
};

std::array<std::atomic<std::uint64_t>, kCounters> counters{};

}  // namespace

void count(const Counter counter) noexcept {
    // Nothing is published through a counter, so no ordering is needed.
    counters.at(static_cast<std::size_t>(counter)).fetch_add(1, std::memory_order_relaxed);
}

std::vector<std::pair<std::string_view, std::uint64_t>> stats() {
    std::vector<std::pair<std::string_view, std::uint64_t>> result;
    result.reserve(kCounters);
    for (std::size_t i = 0; i < kCounters; ++i) {
        result.emplace_back(kNames.at(i), counters.at(i).load(std::memory_order_relaxed));
    }
    return result;
}

}  // namespace trt_runtime

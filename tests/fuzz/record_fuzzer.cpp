// Records of engines and headers of plans: read or refused, and a record that was read is written
// as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "errors.h"
#include "plan.h"
#include "record.h"

namespace {

void require(const bool condition) {
    if (!condition) std::abort();
}

// One slot a line: texts that a fuzzer can cut, join and repeat.
std::vector<std::string> slots_of(const std::uint8_t* const data, const std::size_t size) {
    std::vector<std::string> slots(1);
    for (std::size_t i = 0; i < size; ++i) {
        if (data[i] == '\n') {
            slots.emplace_back();
        } else {
            slots.back() += static_cast<char>(data[i]);
        }
    }
    return slots;
}

void read_record(const std::vector<std::string>& slots) {
    trt_runtime::Record record;
    try {
        record = trt_runtime::parse_record(slots);
        trt_runtime::check_record(record);
    } catch (const trt_runtime::RecordError&) {
        return;
    }
    const auto written = trt_runtime::to_slots(record);
    require(written.size() == slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
        require(written[i].has_value() == (i != trt_runtime::kEngineSlot));
        require(!written[i] || *written[i] == slots[i]);
    }
}

void read_plan(const std::span<const std::byte> bytes) {
    try {
        const trt_runtime::Plan plan(bytes.data(), bytes.size(), nullptr);
        const auto payload = plan.payload();
        require(payload.data() >= bytes.data());
        require(payload.data() + payload.size() == bytes.data() + bytes.size());
        require(plan.payload_sha256().empty() || plan.payload_sha256().size() == 32);
        require(trt_runtime::parse_plan_format(trt_runtime::to_string(plan.format())) ==
                plan.format());
    } catch (const trt_runtime::PlanError&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    read_record(slots_of(data, size));
    read_plan({reinterpret_cast<const std::byte*>(data), size});
    return 0;
}

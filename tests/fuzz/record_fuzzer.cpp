// Records of engines: a text that was read is written as it was.
#include <cstdint>

#include "errors.h"
#include "record.h"
#include "require.h"

namespace {

// One slot a line: texts that a fuzzer can cut, join and repeat.
std::vector<std::string> slots_of(const std::string_view text) {
    std::vector<std::string> slots(1);
    for (const char c : text) {
        if (c == '\n') {
            slots.emplace_back();
        } else {
            slots.back() += c;
        }
    }
    return slots;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    const auto slots = slots_of({reinterpret_cast<const char*>(data), size});
    trt_runtime::Record record;
    try {
        record = trt_runtime::parse_record(slots);
        trt_runtime::check_record(record);
    } catch (const trt_runtime::RecordError&) {
        return 0;
    }
    const auto written = trt_runtime::to_slots(record);
    require(written.size() == slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
        require(written[i].has_value() == (i != trt_runtime::kEngineSlot));
        require(!written[i] || *written[i] == slots[i]);
    }
    return 0;
}

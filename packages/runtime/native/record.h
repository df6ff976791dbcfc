#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "export.h"

// The metadata of an engine and its text: 13 strings, docs/engine-record.md.
namespace trt_runtime {

inline constexpr std::size_t kRecordSlots = 13;
inline constexpr std::size_t kEngineSlot = 3;

struct AliasedIo {
    std::string output;
    std::string input;
    std::string kind;
};

struct Record {
    std::string name;
    std::string device;  // `id%major%minor%type%name`
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    bool hardware_compatible = false;
    std::string metadata;  // JSON; read by whoever executes the engine, not here
    std::string target_platform;
    bool requires_output_allocator = false;
    bool dynamic_allocation = false;
    bool requires_native_multidevice = false;
    std::vector<AliasedIo> aliased_io;
};

// Throws RecordError where a field holds what its text could not hold (a `%` in a name), or what no
// engine can have (no input, a name twice, an alias of a binding that is not there).
TRT_RUNTIME_API void check_record(const Record& record);

// The 13 slots, all strings but the engine's, which is nullopt.
std::vector<std::optional<std::string>> to_slots(const Record& record);

// The other way round, all slots but the engine's. Length and ABI are checked before anything else
// is read. Throws RecordError.
TRT_RUNTIME_API Record parse_record(const std::vector<std::string>& slots);

}  // namespace trt_runtime

#include "log.h"

#include <atomic>
#include <cstdio>
#include <string_view>
#include <utility>

#include "interface.h"

namespace trt_runtime {
namespace {

// A program that logs without end must not fill the memory: what comes after that is dropped.
constexpr std::size_t kMaxCaptured = 64 * 1024;

std::atomic<LogMode> log_mode = LogMode::kUnexplained;
thread_local int captures = 0;
thread_local std::string captured;

void write(const std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

void set_log_mode(const LogMode mode) { log_mode.store(mode); }

void begin_log_capture() { ++captures; }

void end_log_capture() {
    if (--captures > 0) return;
    const std::string left = take_log();
    if (log_mode.load() == LogMode::kUnexplained) write(left);
}

std::string take_log() { return std::exchange(captured, {}); }

}  // namespace trt_runtime

void trt_delegate_log(const char* const file, const size_t line, const char* const message) {
    using trt_runtime::LogMode;
    const std::string text =
        "[" + std::string(file) + ":" + std::to_string(line) + "] " + message + "\n";
    const LogMode mode = trt_runtime::log_mode.load();
    if (mode != LogMode::kAll && trt_runtime::captures > 0) {
        if (trt_runtime::captured.size() + text.size() <= trt_runtime::kMaxCaptured) {
            trt_runtime::captured += text;
        }
    } else if (mode != LogMode::kNone) {
        trt_runtime::write(text);
    }
}

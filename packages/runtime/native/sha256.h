#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "export.h"

namespace trt_runtime {

using Sha256 = std::array<std::byte, 32>;
// Called without any lock held, from any thread, since it may enter Python.
using Sha256Function = std::function<Sha256(std::span<const std::byte>)>;

// This library has no hash of its own: whoever embeds it hands one over. A later one replaces it.
TRT_RUNTIME_API void register_sha256(std::shared_ptr<const Sha256Function> function);

// Throws c10::Error where no one registered a function.
Sha256 sha256(std::span<const std::byte> bytes);

}  // namespace trt_runtime

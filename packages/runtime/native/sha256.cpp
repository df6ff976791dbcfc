#include "sha256.h"

#include <c10/util/Exception.h>

#include <string_view>
#include <utility>

#include "registered.h"

namespace trt_runtime {
namespace {

Registered<Sha256Function>& registered() {
    static auto* const instance = new Registered<Sha256Function>;
    return *instance;
}

}  // namespace

void register_sha256(std::shared_ptr<const Sha256Function> function) {
    registered().set(std::move(function));
}

Sha256 sha256(const std::span<const std::byte> bytes) {
    const auto function = registered().get();
    TORCH_CHECK(function != nullptr,
                "sha256 of a plan: expected a function that computes it, found none; import "
                "trt_runtime in this process");
    return (*function)(bytes);
}

}  // namespace trt_runtime

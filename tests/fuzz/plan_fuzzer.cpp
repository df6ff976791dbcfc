// Headers of plans: read or refused, and what the executor reads is the end of the plan.
#include <cstdint>

#include "errors.h"
#include "plan.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* const data, const std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const trt_runtime::Plan plan(bytes.data(), bytes.size(), nullptr);
        require(plan.bytes().data() == bytes.data() && plan.size() == size);
        const auto payload = plan.payload();
        require(payload.data() >= bytes.data());
        require(payload.data() + payload.size() == bytes.data() + bytes.size());
        const auto digest = plan.payload_sha256();
        require(digest.empty() || (digest.size() == 32 && digest.data() > bytes.data() &&
                                   digest.data() + digest.size() <= payload.data()));
        require(trt_runtime::parse_plan_format(trt_runtime::to_string(plan.format())) ==
                plan.format());
    } catch (const trt_runtime::PlanError& error) {
        require_message(error.what_without_backtrace(), 400);
    }
    return 0;
}

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "export.h"
#include "sha256.h"

namespace trt_runtime {

enum class PlanFormat : std::uint8_t { kOnnxRuntime, kTensorRt, kTensorRtRtx };

// "onnxruntime", "tensorrt" or "tensorrt-rtx".
TRT_RUNTIME_API std::string_view to_string(PlanFormat format);
// The other way round; throws PlanError for a name that is none of these.
TRT_RUNTIME_API PlanFormat parse_plan_format(std::string_view name);

// The bytes of a built engine. They never change and never move; `owner` keeps them alive.
//
// Making one reads the header and nothing else. It throws PlanError when the bytes are no plan that
// this library knows or, for `onnxruntime` plans, when the header contradicts the size. NVIDIA does
// not document the headers of the other two, so only their magic is looked at.
class TRT_RUNTIME_API Plan {
  public:
    Plan(const std::byte* data, std::size_t size, std::shared_ptr<const void> owner);
    explicit Plan(std::vector<std::byte> bytes);
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan();

    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    std::size_t size() const noexcept { return bytes_.size(); }
    PlanFormat format() const noexcept { return format_; }

    // What the executor reads: the ONNX model of an `onnxruntime` plan and the weights behind it,
    // else the whole plan.
    std::span<const std::byte> payload() const noexcept { return payload_; }
    // Size in bytes of the ONNX model at the beginning of the payload. Weights that are not in the
    // model begin at the next multiple of 64 and end with the payload.
    std::size_t model_size() const noexcept { return model_size_; }
    // sha256 of the payload as the header has it; empty where the header has none.
    std::span<const std::byte> payload_sha256() const noexcept { return payload_sha256_; }

    // sha256 of all bytes. The first call reads them, the plan keeps what it found. May enter
    // Python (sha256.h): hold no lock.
    Sha256 sha256() const;
    // The same, for who is about to run the plan: computed anew once a tensor over the plan has
    // been given away, since a tensor can be written to at any time after.
    Sha256 verified_sha256() const;
    void given_away() const noexcept { given_away_.store(true); }

    // Whether a record got its digest from this very plan: then that digest tells no damage.
    void set_vouches_for_itself(const bool value) noexcept { vouches_for_itself_.store(value); }
    bool vouches_for_itself() const noexcept { return vouches_for_itself_.load(); }

  private:
    explicit Plan(std::shared_ptr<const std::vector<std::byte>> bytes);
    Sha256 compute_sha256() const;

    std::shared_ptr<const void> owner_;
    std::span<const std::byte> bytes_;
    PlanFormat format_;
    std::span<const std::byte> payload_;
    std::size_t model_size_;
    std::span<const std::byte> payload_sha256_;
    mutable std::atomic<const Sha256*> sha256_ = nullptr;  // owned; set once
    mutable std::atomic<bool> given_away_ = false;
    std::atomic<bool> vouches_for_itself_ = false;
};

}  // namespace trt_runtime

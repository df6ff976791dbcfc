#include "plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "errors.h"
#include "hex.h"
#include "little_endian.h"
#include "stats.h"

namespace trt_runtime {
namespace {

constexpr std::size_t kMagicSize = 4;

struct Magic {
    std::string_view text;
    PlanFormat format;
    std::string_view name;
};

constexpr std::array<Magic, 3> kMagics = {{
    {"ortp", PlanFormat::kOnnxRuntime, "onnxruntime"},
    {"ftrt", PlanFormat::kTensorRt, "tensorrt"},
    {"vtrt", PlanFormat::kTensorRtRtx, "tensorrt-rtx"},
}};

// The header of an `onnxruntime` plan, little-endian: docs/engine-record.md, `<4sHHIIQ32s8x`.
constexpr std::size_t kHeaderSize = 64;
constexpr std::size_t kPayloadAlignment = 64;
constexpr std::uint64_t kVersion = 1;
// Flag: weights lie behind the model, whose size is in the last 8 bytes of the header. Without it
// they are zeros.
constexpr std::uint64_t kExternalWeights = 1;
constexpr std::size_t kModelSize = 56;
// Of the provenance in bytes: a header that claims more is damaged, and its zeros need not be read.
constexpr std::uint64_t kMaxProvenance = 1U << 20U;
constexpr std::uint64_t kMaxOffset = kMaxProvenance + 256;

bool is_zero(const std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [](const std::byte byte) { return byte == std::byte{0}; });
}

// Printable ASCII as it is, anything else as \xNN: a magic in a message must not garble a terminal.
std::string printable(const std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        const auto value = std::to_integer<unsigned>(byte);
        if (value >= 0x20 && value < 0x7f) {
            text += static_cast<char>(value);
        } else {
            text += "\\x" + to_hex({&byte, 1});
        }
    }
    return text;
}

PlanFormat detect_format(const std::span<const std::byte> bytes) {
    const auto magic = bytes.first(std::min(kMagicSize, bytes.size()));
    for (const Magic& known : kMagics) {
        if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) ==
            known.text) {
            return known.format;
        }
    }
    TRT_RUNTIME_CHECK(PlanError, false,
                      "not a plan: expected the magic 'ortp' (onnxruntime), 'ftrt' (tensorrt) or "
                      "'vtrt' (tensorrt-rtx) in the first 4 bytes, found '",
                      printable(magic), "' in ", bytes.size(),
                      " bytes; pass the bytes that a builder returned");
}

}  // namespace

std::string_view to_string(const PlanFormat format) {
    for (const Magic& known : kMagics) {
        if (known.format == format) return known.name;
    }
    TORCH_INTERNAL_ASSERT(false, "a plan format without a name");
}

PlanFormat parse_plan_format(const std::string_view name) {
    for (const Magic& known : kMagics) {
        if (known.name == name) return known.format;
    }
    TRT_RUNTIME_CHECK(PlanError, false,
                      "plan format: expected 'onnxruntime', 'tensorrt' or 'tensorrt-rtx', found '",
                      name, "'");
}

Plan::Plan(const std::byte* const data, const std::size_t size, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)),
      bytes_(data, size),
      format_(detect_format(bytes_)),
      payload_(bytes_),
      model_size_(size) {
    if (format_ != PlanFormat::kOnnxRuntime) return;

    constexpr std::string_view kMend = "; the plan is damaged or truncated, build it again";
    TRT_RUNTIME_CHECK(PlanError, size >= kHeaderSize, "onnxruntime plan: expected a header of ",
                      kHeaderSize, " bytes, found ", size, " bytes", kMend);
    const std::uint64_t version = little_endian<2>(bytes_, 4);
    const std::uint64_t flags = little_endian<2>(bytes_, 6);
    const std::uint64_t payload_offset = little_endian<4>(bytes_, 8);
    const std::uint64_t provenance_size = little_endian<4>(bytes_, 12);
    const std::uint64_t payload_size = little_endian<8>(bytes_, 16);
    TRT_RUNTIME_CHECK(PlanError, version == kVersion, "onnxruntime plan: expected header version ",
                      kVersion, ", found ", version,
                      "; install a trt-runtime that reads it: pip install -U trt-runtime");
    TRT_RUNTIME_CHECK(PlanError, flags <= kExternalWeights,
                      "onnxruntime plan: expected no flags or flag ", kExternalWeights, ", found ",
                      flags, "; install a trt-runtime that knows them: pip install -U trt-runtime");
    // All are below 2^32 here except the sizes, which are only ever subtracted from larger ones, so
    // nothing can overflow.
    TRT_RUNTIME_CHECK(PlanError,
                      payload_offset % kPayloadAlignment == 0 && payload_offset <= size &&
                          payload_offset >= kHeaderSize + provenance_size,
                      "onnxruntime plan: expected the payload at a multiple of ", kPayloadAlignment,
                      " after ", kHeaderSize, " + ", provenance_size,
                      " bytes of header and provenance and within ", size, " bytes, found offset ",
                      payload_offset, kMend);
    TRT_RUNTIME_CHECK(PlanError, payload_size == size - payload_offset,
                      "onnxruntime plan: expected a payload of ", payload_size,
                      " bytes that ends the plan, found ", size - payload_offset, " bytes", kMend);
    TRT_RUNTIME_CHECK(PlanError, provenance_size <= kMaxProvenance && payload_offset <= kMaxOffset,
                      "onnxruntime plan: expected a provenance of at most ", kMaxProvenance,
                      " bytes and a payload within ", kMaxOffset, ", found ", provenance_size,
                      " bytes and offset ", payload_offset, kMend);
    payload_ = bytes_.subspan(payload_offset, payload_size);
    std::uint64_t model_size = little_endian<8>(bytes_, kModelSize);
    TRT_RUNTIME_CHECK(PlanError, flags == kExternalWeights || model_size == 0,
                      "onnxruntime plan: expected zeros at the end of the header, found others",
                      kMend);
    if (flags == 0) model_size = payload_size;
    TRT_RUNTIME_CHECK(PlanError, model_size <= payload_size && (flags == 0 || model_size > 0),
                      "onnxruntime plan: expected a model within the ", payload_size,
                      " bytes of the payload, found one of ", model_size, " bytes", kMend);
    model_size_ = model_size;
    const std::size_t weights = std::min<std::size_t>(
        payload_size, (model_size + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment);
    const std::uint64_t provenance_end = kHeaderSize + provenance_size;
    TRT_RUNTIME_CHECK(
        PlanError,
        is_zero(bytes_.subspan(provenance_end, payload_offset - provenance_end)) &&
            is_zero(payload_.subspan(model_size, weights - model_size)),
        "onnxruntime plan: expected zeros up to the payload and between model and weights, found "
        "others",
        kMend);
    payload_sha256_ = bytes_.subspan(24, 32);
}

Plan::Plan(std::shared_ptr<const std::vector<std::byte>> bytes)
    : Plan(bytes->data(), bytes->size(), bytes) {}

Plan::Plan(std::vector<std::byte> bytes)
    : Plan(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}

Plan::~Plan() { delete sha256_.load(std::memory_order_acquire); }

Sha256 Plan::compute_sha256() const {
    count(Counter::kPlanHashes);
    return trt_runtime::sha256(bytes_);
}

// Not std::call_once: a thread that hashes may need the GIL, which one that waits for it may hold.
// Two may thus both hash; the first to come back is kept.
Sha256 Plan::sha256() const {
    if (const Sha256* const known = sha256_.load(std::memory_order_acquire)) return *known;
    auto computed = std::make_unique<const Sha256>(compute_sha256());
    const Sha256* expected = nullptr;
    if (!sha256_.compare_exchange_strong(expected, computed.get(), std::memory_order_acq_rel)) {
        return *expected;
    }
    return *computed.release();
}

Sha256 Plan::verified_sha256() const {
    return given_away_.load() && sha256_.load() != nullptr ? compute_sha256() : sha256();
}

}  // namespace trt_runtime

#include "reference.h"

#include <algorithm>
#include <string_view>

#include "../hex.h"
#include "../little_endian.h"
#include "json_fields.h"

namespace trt_runtime {
namespace {

using payload::as_text, payload::Fields, payload::Json, payload::refuse, payload::shown,
    payload::text;

constexpr std::string_view kMagic = "TRTN";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kHeaderSize = 64;
constexpr std::size_t kDigestOffset = 24;
constexpr std::size_t kDigestSize = 32;

// The names of a side's bindings, each once.
std::vector<std::string> names(const Fields& metadata, const char* const side) {
    std::vector<std::string> found = metadata.strings(side);
    if (found.empty()) refuse("metadata: expected at least one of the ", side, ", found none");
    std::vector<std::string> sorted = found;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
        refuse("metadata: expected each of the ", side, " once, found ", shown(*twice), " twice");
    }
    return found;
}

}  // namespace

std::string PlanReference::key() const { return "trt-plan-sha256-" + plan_sha256; }

bool is_reference(const std::span<const std::byte> payload) noexcept {
    return payload.size() >= kMagic.size() && as_text(payload.first(kMagic.size())) == kMagic;
}

PlanReference parse_reference(const std::span<const std::byte> payload) {
    const std::uint64_t size = payload.size();
    if (size < kHeaderSize) {
        refuse("expected a header of ", text(kHeaderSize), " bytes, found ", text(size), " in all");
    }
    const std::string_view magic = as_text(payload.first(kMagic.size()));
    if (magic != kMagic) {
        refuse("expected the magic ", kMagic, ", found ", shown(std::string(magic)));
    }
    const std::uint64_t version = little_endian<2>(payload, 4);
    const std::uint64_t flags = little_endian<2>(payload, 6);
    if (version != kVersion || flags != 0) {
        refuse("expected header version ", text(kVersion), " without flags, found version ",
               text(version), " and flags ", text(flags),
               ", for which a newer trt-runtime may be needed (pip install -U trt-runtime)");
    }
    // The sum of two 32-bit numbers cannot overflow.
    const std::uint64_t header_size = little_endian<4>(payload, 8);
    const std::uint64_t metadata_size = little_endian<4>(payload, 12);
    if (header_size < kHeaderSize || header_size + metadata_size != size) {
        refuse("expected metadata behind ", text(kHeaderSize),
               " bytes or more that ends the payload of ", text(size), " bytes, found ",
               text(metadata_size), " bytes at ", text(header_size));
    }
    PlanReference reference;
    reference.plan_size = little_endian<8>(payload, 16);
    reference.plan_sha256 = to_hex(payload.subspan(kDigestOffset, kDigestSize));
    const auto metadata = payload.subspan(header_size);
    const Json json = payload::parse_json(metadata);
    const Fields fields(json, "metadata");
    fields.object("record");
    reference.inputs = names(fields, "inputs");
    reference.outputs = names(fields, "outputs");
    reference.metadata = as_text(metadata);
    return reference;
}

}  // namespace trt_runtime

#include "blob.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "../little_endian.h"
#include "json_fields.h"

namespace trt_runtime {
namespace {

using payload::as_text, payload::Fields, payload::Json, payload::refuse, payload::shown,
    payload::text;

constexpr std::size_t kHeaderSize = 32;
constexpr std::size_t kAlignment = 16;
constexpr std::string_view kMagic = "TR01";
constexpr std::string_view kMagicAliased = "TR02";
// What a writer that leaves an alias's kind out means: the only one that TensorRT itself enforces.
constexpr std::string_view kDefaultAlias = "kv_cache_update";

struct Parts {
    bool aliased;
    std::span<const std::byte> metadata;
    std::span<const std::byte> plan;
};

Parts split(const std::span<const std::byte> payload) {
    const std::uint64_t size = payload.size();
    if (size < kHeaderSize) {
        refuse("expected a header of ", text(kHeaderSize), " bytes, found ", text(size), " in all");
    }
    const std::string_view magic = as_text(payload.first(kMagic.size()));
    if (magic != kMagic && magic != kMagicAliased) {
        refuse("expected the magic TR01 or TR02, found ", shown(std::string(magic)));
    }
    const std::uint64_t metadata_offset = little_endian<4>(payload, 4);
    const std::uint64_t metadata_size = little_endian<4>(payload, 8);
    const std::uint64_t plan_offset = little_endian<4>(payload, 12);
    const std::uint64_t plan_size = little_endian<8>(payload, 16);
    // The sum of two 32-bit numbers cannot overflow; the plan's size is only compared.
    if (metadata_offset < kHeaderSize || metadata_offset + metadata_size > plan_offset) {
        refuse("expected metadata between the header and the plan at byte ", text(plan_offset),
               ", found it at ", text(metadata_offset), " with ", text(metadata_size), " bytes");
    }
    if (plan_offset % kAlignment != 0 || plan_offset > size) {
        refuse("expected the plan at a multiple of ", text(kAlignment), " within ", text(size),
               " bytes, found it at ", text(plan_offset));
    }
    if (plan_size != size - plan_offset) {
        refuse("expected a plan of ", text(plan_size), " bytes that ends the payload, found ",
               text(size - plan_offset));
    }
    return {magic == kMagicAliased, payload.subspan(metadata_offset, metadata_size),
            payload.subspan(plan_offset)};
}

std::vector<BlobBinding> read_bindings(const Json& items) {
    std::vector<BlobBinding> bindings;
    for (const Json& item : items) {
        const Fields fields(item, "binding " + text(bindings.size()));
        BlobBinding binding{.name = fields.string("name"),
                            .dtype = fields.string("dtype"),
                            .shape = fields.shape("shape"),
                            .is_input = fields.boolean("is_input")};
        if (binding.is_input && !bindings.empty() && !bindings.back().is_input) {
            refuse("expected all inputs before the outputs, found input ", shown(binding.name),
                   " behind output ", shown(bindings.back().name));
        }
        bindings.push_back(std::move(binding));
    }
    return bindings;
}

bool has_binding(const Blob& blob, const std::string_view name, const bool is_input) {
    return std::any_of(blob.bindings.begin(), blob.bindings.end(), [&](const BlobBinding& binding) {
        return binding.name == name && binding.is_input == is_input;
    });
}

std::vector<AliasedIo> read_aliases(const Json& items, const Blob& blob) {
    std::vector<AliasedIo> aliases;
    for (const Json& item : items) {
        const Fields fields(item, "alias " + text(aliases.size()));
        AliasedIo alias{.output = fields.string("output"),
                        .input = fields.string("input"),
                        .kind = fields.string("kind", kDefaultAlias)};
        if (!has_binding(blob, alias.output, false) || !has_binding(blob, alias.input, true)) {
            refuse("expected an alias of an output and an input of the engine, found ",
                   shown(alias.output), " and ", shown(alias.input));
        }
        aliases.push_back(std::move(alias));
    }
    return aliases;
}

}  // namespace

std::size_t Blob::inputs() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(bindings.begin(), bindings.end(),
                      [](const BlobBinding& binding) { return binding.is_input; }));
}

Blob parse_blob(const std::span<const std::byte> payload) {
    const Parts parts = split(payload);
    const Json metadata = payload::parse_json(parts.metadata);
    const Fields fields(metadata, "metadata");
    Blob blob;
    blob.bindings = read_bindings(fields.list("io_bindings"));
    // Writers in the field add an empty list to TR01; absent and empty say the same.
    blob.aliased_io = read_aliases(fields.list("aliased_io", /*optional=*/true), blob);
    if (blob.aliased_io.empty() == parts.aliased) {
        refuse("expected ", parts.aliased ? "aliased_io in a TR02" : "no aliased_io in a TR01",
               " payload, found ", text(blob.aliased_io.size()));
    }
    blob.hardware_compatible = fields.boolean("hardware_compatible", false);
    blob.device_id = fields.device("device_id", 0);
    blob.metadata = fields.string("serialized_metadata", "");
    blob.target_platform = fields.string("target_platform", "");
    blob.plan = parts.plan;
    return blob;
}

}  // namespace trt_runtime

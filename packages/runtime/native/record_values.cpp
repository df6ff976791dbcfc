#include "record_values.h"

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.h"

namespace trt_runtime {
namespace {

using Json = nlohmann::json;
using Values = c10::impl::GenericDict;

constexpr std::int64_t kSchema = 1;
// Torch converts and frees values by recursion; this is far from where that ends, and farther than
// any record goes.
constexpr std::size_t kMaxDepth = 100;

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    TRT_RUNTIME_CHECK(RecordError, false, "record: metadata: ", parts...,
                      "; read it with Engine.info, or make the engine again");
}

Values make_values() { return Values(c10::StringType::get(), c10::AnyType::get()); }

// Takes what the parser reads, without recursion. What is refused throws.
class Builder final : public nlohmann::json_sax<Json> {
  public:
    bool null() override { return add({}); }
    bool boolean(const bool value) override { return add(value); }
    bool number_integer(const number_integer_t value) override { return add(value); }
    bool number_unsigned(const number_unsigned_t value) override {
        if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
            refuse("expected integers of at most 64 bits, found ", value);
        }
        return add(static_cast<std::int64_t>(value));
    }
    bool number_float(const number_float_t value, const string_t& text) override {
        // The parser makes a float of an integer that it has no type for.
        if (text.find_first_of(".eE") == string_t::npos) {
            refuse("expected integers of at most 64 bits, found one of ", text.size(),
                   " characters");
        }
        return add(value);
    }
    bool string(string_t& value) override { return add(std::move(value)); }
    bool binary(binary_t&) override { refuse("expected JSON, found a binary format"); }
    bool start_object(std::size_t) override { return open(make_values()); }
    bool key(string_t& value) override {
        key_ = std::move(value);
        return true;
    }
    bool end_object() override { return close(); }
    bool start_array(std::size_t) override {
        return open(c10::impl::GenericList(c10::AnyType::get()));
    }
    bool end_array() override { return close(); }
    bool parse_error(const std::size_t position, const std::string&,
                     const nlohmann::detail::exception&) override {
        refuse("expected JSON of finite numbers and UTF-8, found something else at byte ",
               position);
    }

    const c10::IValue& result() const { return result_; }

  private:
    bool add(c10::IValue value) {
        if (open_.empty()) {
            result_ = std::move(value);
        } else if (open_.back().isGenericDict()) {
            // The last of two equal keys counts, as in Python.
            open_.back().toGenericDict().insert_or_assign(key_, std::move(value));
        } else {
            open_.back().toList().push_back(std::move(value));
        }
        return true;
    }

    // Lists and objects are references: what goes on to be filled is in its place already.
    bool open(c10::IValue value) {
        if (open_.size() == kMaxDepth) {
            refuse("expected at most ", kMaxDepth, " levels of nesting, found more");
        }
        add(value);
        open_.push_back(std::move(value));
        return true;
    }

    bool close() {
        open_.pop_back();
        return true;
    }

    std::vector<c10::IValue> open_;
    std::string key_;
    c10::IValue result_;
};

Values parse_metadata(const std::string_view text) {
    Builder builder;
    Json::sax_parse(text, &builder);
    if (!builder.result().isGenericDict()) {
        refuse("expected a JSON object, found a ", builder.result().tagKind());
    }
    Values metadata = builder.result().toGenericDict();
    const auto schema = metadata.find("schema");
    if (schema == metadata.end() || !schema->value().isInt() ||
        schema->value().toInt() != kSchema) {
        refuse("expected schema ", kSchema, ", found another or none");
    }
    return metadata;
}

std::string device_name(const std::string_view device) {
    // Checked when the engine was made (record.cpp): the CPU's, or that of a GPU by its number.
    if (device.starts_with('-')) return "cpu";
    return "cuda:" + std::to_string(std::stoi(std::string(device.substr(0, device.find('%')))));
}

c10::impl::GenericList alias_values(const std::vector<AliasedIo>& aliases) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const AliasedIo& alias : aliases) {
        Values fields = make_values();
        fields.insert("output", alias.output);
        fields.insert("input", alias.input);
        fields.insert("kind", alias.kind);
        list.push_back(std::move(fields));
    }
    return list;
}

}  // namespace

c10::Dict<std::string, c10::IValue> record_values(const Record& record) {
    const Values metadata = parse_metadata(record.metadata);
    Values values = make_values();
    values.insert("name", record.name);
    values.insert("device", device_name(record.device));
    for (const char* const key : {"inputs", "outputs", "plan"}) {
        const auto found = metadata.find(key);
        if (found != metadata.end() && !found->value().isNone()) {
            values.insert(key, found->value());
        }
    }
    const auto provenance = metadata.find("provenance");
    values.insert("provenance",
                  provenance == metadata.end() ? c10::IValue(make_values()) : provenance->value());
    values.insert("hardware_compatible", record.hardware_compatible);
    values.insert("target_platform", record.target_platform);
    values.insert("requires_output_allocator", record.requires_output_allocator);
    values.insert("resource_allocation_strategy", record.dynamic_allocation ? "dynamic" : "static");
    values.insert("requires_native_multidevice", record.requires_native_multidevice);
    values.insert("aliased_io", alias_values(record.aliased_io));
    // Fields of later versions. What has a slot of its own was inserted from there and stays.
    for (const auto& field : metadata) {
        const std::string& key = field.key().toStringRef();
        if (key != "schema" && key != "plan") values.insert(key, field.value());
    }
    return c10::impl::toTypedDict<std::string, c10::IValue>(std::move(values));
}

}  // namespace trt_runtime

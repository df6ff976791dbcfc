// A double of torch-tensorrt's engine: the class `torch.classes.tensorrt.Engine` and the operator
// `tensorrt::execute_engine` with the interface that they have there, and nothing behind it.
//
// With FOREIGN_ACCESSORS=1 in the environment when it is loaded, the class has the methods of 2.14; without, those of
// 2.13 and older. torch registers a class once per process, so a process has the one or the other.
#include <ATen/ops/from_blob.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace {

constexpr size_t kEngineSlot = 3;
constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
int serializations = 0;

std::string encode(const std::string& bytes) {
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        unsigned group = 0;
        for (size_t k = 0; k < 3; ++k) {
            group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
        }
        for (size_t k = 0; k < 4; ++k) {
            text += i + k <= bytes.size() ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    return text;
}

std::string decode(const std::string& text) {
    std::string bytes;
    unsigned group = 0;
    int bits = 0;
    for (const char character : text.substr(0, text.find('='))) {
        group = group << 6 | static_cast<unsigned>(std::string(kAlphabet).find(character));
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes += static_cast<char>(group >> bits & 255);
        }
    }
    return bytes;
}

struct Engine : torch::CustomClassHolder {
    // The record; its engine slot holds the plan's own bytes.
    std::vector<std::string> slots;

    explicit Engine(std::vector<std::string> state) : slots(std::move(state)) {}

    std::vector<std::string> serialize() const {
        ++serializations;
        std::vector<std::string> state = slots;
        state.at(kEngineSlot) = encode(slots.at(kEngineSlot));
        return state;
    }
};

using Self = c10::intrusive_ptr<Engine>;

std::vector<std::optional<std::string>> metadata_only(const Self& self) {
    std::vector<std::optional<std::string>> state(self->slots.begin(), self->slots.end());
    state.at(kEngineSlot) = std::nullopt;
    return state;
}

at::Tensor engine_tensor(const Self& self) {
    std::string& plan = self->slots.at(kEngineSlot);
    return at::from_blob(
        plan.data(), {static_cast<int64_t>(plan.size())}, [self](void*) {}, at::kByte);
}

bool same(const Self& self, const c10::IValue& other) {
    return other.isCustomClass() && other.toObject()->getSlot(0).toCapsule().get() == self.get();
}

std::vector<at::Tensor> execute(const std::vector<at::Tensor>&, const Self&) {
    TORCH_CHECK(false, "a double runs nothing");
}

}  // namespace

// How often an engine was serialized whole.
extern "C" int foreign_serializations() { return serializations; }

TORCH_LIBRARY(tensorrt, library) {
    auto engine =
        library.class_<Engine>("Engine")
            .def(torch::init<std::vector<std::string>>())
            .def("__obj_flatten__",
                 [](const Self& self) {
                     return std::tuple<std::tuple<std::string, std::vector<std::string>>>(
                         {"serialized", self->serialize()});
                 })
            .def_pickle([](const Self& self) { return self->serialize(); },
                        [](std::vector<std::string> state) {
                            state.at(kEngineSlot) = decode(state.at(kEngineSlot));
                            return c10::make_intrusive<Engine>(std::move(state));
                        });
    const char* accessors = std::getenv("FOREIGN_ACCESSORS");
    if (accessors != nullptr && std::string(accessors) == "1") {
        engine.def("tracing_mode", [](const Self&) -> std::string { return "real"; })
            .def("__eq__", &same)
            .def("__ne__",
                 [](const Self& self, const c10::IValue& other) { return !same(self, other); })
            .def("serialize_metadata_only", &metadata_only)
            .def("serialized_engine_tensor", &engine_tensor);
    }
    library.def(
        "execute_engine(Tensor[] inputs, __torch__.torch.classes.tensorrt.Engine engine) -> "
        "Tensor[]");
}

TORCH_LIBRARY_IMPL(tensorrt, CompositeExplicitAutograd, library) {
    library.impl("execute_engine", &execute);
}

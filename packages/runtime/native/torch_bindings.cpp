#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "capabilities.h"
#include "engine.h"
#include "errors.h"
#include "hex.h"
#include "record_values.h"
#include "state.h"

// The class `torch.classes.trt_runtime.Engine` and the operator `trt_runtime::execute_engine`.
namespace trt_runtime {
namespace {

using EnginePointer = c10::intrusive_ptr<Engine>;
using FlattenedEngine = std::tuple<std::tuple<std::string, std::vector<std::string>>>;

FlattenedEngine flatten(const EnginePointer& engine) { return {{"record", engine->serialize()}}; }

// Torch asks for it where an engine enters a trace, and where an engine is part of a key.
bool is_same(const EnginePointer& engine, const c10::IValue& other) {
    // A script object and its capsule: only an engine's is of this type, so nothing else is read.
    return other.isObject() && other.isCustomClass() &&
           other.toObjectRef().getSlot(0).toCapsule().get() ==
               static_cast<c10::intrusive_ptr_target*>(engine.get());
}

std::vector<at::Tensor> execute(const at::TensorList inputs,
                                const std::optional<EnginePointer>& engine) {
    TRT_RUNTIME_CHECK(InputError, engine.has_value() && *engine,
                      "trt_runtime::execute_engine: expected an engine, found None; pass the "
                      "script_object of a trt_runtime.Engine");
    return (*engine)->execute(inputs.vec());
}

// Whether the inputs are what a compiler traces with. It would trace the backward pass too, though
// nobody asked for it, and fail; what it traces needs no gradient of an engine.
bool is_traced(const at::TensorList inputs) {
    return std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& input) {
        return input.key_set().has(c10::DispatchKey::Python);
    });
}

// Running an engine on inputs that require a gradient is fine (a plain call of a model whose other
// parameters do); asking for that gradient is the error, and without this it would come out zero.
//
// Boxed, so that the engine goes on as the very object that came: export looks engines up by the
// hash of that, and taking one out and wrapping it again gives another.
void execute_with_autograd(const c10::OperatorHandle& op, torch::jit::Stack* const stack) {
    const std::vector<at::Tensor> inputs = torch::jit::peek(*stack, 0, 2).toTensorVector();
    {
        const at::AutoDispatchBelowADInplaceOrView guard;
        op.callBoxed(stack);
    }
    if (!torch::autograd::compute_requires_grad(inputs) || is_traced(inputs)) return;
    const auto node = c10::make_intrusive<torch::autograd::Error>(
        "trt_runtime::execute_engine: expected no gradient to be asked for, found backward() "
        "through an engine; engines are for inference: run them under torch.no_grad(), or "
        "detach() their inputs or outputs",
        torch::autograd::collect_next_edges(inputs));
    for (const at::Tensor& output : stack->back().toTensorVector()) {
        if (torch::autograd::isDifferentiableType(output.scalar_type())) {
            torch::autograd::set_history(output, node);
        }
    }
}

}  // namespace

TORCH_LIBRARY(trt_runtime, library) {
    library.class_<Engine>("Engine")
        .def("__obj_flatten__", &flatten)
        .def("serialize", [](const EnginePointer& engine) { return engine->serialize(); })
        .def("serialize_metadata_only",
             [](const EnginePointer& engine) { return engine->serialize_metadata_only(); })
        .def("serialized_engine_tensor",
             [](const EnginePointer& engine) { return engine->plan_tensor(); })
        .def("plan_sha256",
             [](const EnginePointer& engine) { return to_hex(engine->plan()->sha256()); })
        .def("record", [](const EnginePointer& engine) { return record_values(engine->record()); })
        .def("capabilities",
             [](const EnginePointer&) {
                 return std::vector<std::string>(kCapabilities.begin(), kCapabilities.end());
             })
        // Traced as itself: nothing is flattened, copied or put back.
        .def("tracing_mode", [](const EnginePointer&) { return std::string("real"); })
        .def("__eq__", &is_same)
        .def("__ne__", [](const EnginePointer& engine,
                          const c10::IValue& other) { return !is_same(engine, other); })
        .def_pickle([](const EnginePointer& engine) { return get_state(*engine); },
                    [](const c10::IValue& state) { return set_state(state); });
    // `Engine?`, not `Engine`: an argument of plain class type makes torch call the operator past
    // the dispatch rules of tracing.py and count it as effectful (torch/_ops.py,
    // _has_script_object_arg). None is refused.
    library.def(
        "execute_engine(Tensor[] inputs, __torch__.torch.classes.trt_runtime.Engine? engine) -> "
        "Tensor[]",
        {at::Tag::pt2_compliant_tag});
}

// Every backend: a tensor that the engine cannot take is refused by name, by the record's checks.
TORCH_LIBRARY_IMPL(trt_runtime, CompositeExplicitAutograd, library) {
    library.impl("execute_engine", &execute);
}
TORCH_LIBRARY_IMPL(trt_runtime, Autograd, library) {
    library.impl("execute_engine",
                 torch::CppFunction::makeFromBoxedFunction<&execute_with_autograd>());
}

}  // namespace trt_runtime

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "engine.h"

// The class `torch.classes.trt_runtime.Engine` and the operator `trt_runtime::execute_engine`.
namespace trt_runtime {
namespace {

using FlattenedEngine = std::tuple<std::tuple<std::string, std::vector<std::string>>>;

FlattenedEngine flatten(const c10::intrusive_ptr<Engine>& engine) {
    return {{"record", engine->serialize()}};
}

std::vector<at::Tensor> execute(const at::TensorList inputs,
                                const c10::intrusive_ptr<Engine>& engine) {
    return engine->execute(inputs.vec());
}

// Running an engine on inputs that require a gradient is fine (a plain call of a model whose other
// parameters do); asking for that gradient is the error, and without this it would come out zero.
std::vector<at::Tensor> execute_with_autograd(const at::TensorList inputs,
                                              const c10::intrusive_ptr<Engine>& engine) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("trt_runtime::execute_engine", "")
                               .typed<decltype(execute)>();
    std::vector<at::Tensor> outputs;
    {
        const at::AutoDispatchBelowADInplaceOrView guard;
        outputs = op.call(inputs, engine);
    }
    if (torch::autograd::compute_requires_grad(inputs)) {
        const auto node = c10::make_intrusive<torch::autograd::Error>(
            "trt_runtime::execute_engine: expected no gradient to be asked for, found backward() "
            "through an engine; engines are for inference: run them under torch.no_grad(), or "
            "detach() their inputs or outputs",
            torch::autograd::collect_next_edges(inputs));
        for (const at::Tensor& output : outputs) {
            if (torch::autograd::isDifferentiableType(output.scalar_type())) {
                torch::autograd::set_history(output, node);
            }
        }
    }
    return outputs;
}

}  // namespace

TORCH_LIBRARY(trt_runtime, library) {
    library.class_<Engine>("Engine")
        .def("__obj_flatten__", &flatten)
        .def("serialize",
             [](const c10::intrusive_ptr<Engine>& engine) { return engine->serialize(); })
        .def_pickle(
            [](const c10::intrusive_ptr<Engine>& engine) { return engine->serialize(); },
            [](const std::vector<std::string>& slots) { return Engine::deserialize(slots); });
    // `Engine`, not `Engine?`: torch hands the fake of an engine to an argument of plain class type
    // only (torch/_ops.py, _has_script_object_arg), and without a tracing mode every traced engine
    // is one. What that type brings with it, tracing.py undoes.
    library.def(
        "execute_engine(Tensor[] inputs, __torch__.torch.classes.trt_runtime.Engine engine) -> "
        "Tensor[]",
        {at::Tag::pt2_compliant_tag});
}

// Every backend: a tensor that the engine cannot take is refused by name, by the record's checks.
TORCH_LIBRARY_IMPL(trt_runtime, CompositeExplicitAutograd, library) {
    library.impl("execute_engine", &execute);
}
TORCH_LIBRARY_IMPL(trt_runtime, Autograd, library) {
    library.impl("execute_engine", &execute_with_autograd);
}

}  // namespace trt_runtime

"""Runs in a fresh process of its own and does one thing with TensorRT or TensorRT-RTX; knows nothing of this package.

    python -I tensorrt_worker.py REQUEST.json REPLY.json

A process serves one request because a failed build can change the engine that the same process builds next, and so
that a crash of the library is a return code. Requests have `"module"` (`tensorrt`, `tensorrt_rtx`), `"path"` (where to
look for it and what it imports: `sys.path` of the process that asks) and `"task"`:

- `describe`: the reply has `version` and `compute_capabilities`, by the names of the library's enumeration.
- `check`, `build`: parse `model` (a path; weights as external data). The reply has `refusals`, a list of
    `[name of the ONNX node or null, reason]`; if it is empty after `build`, the plan is in the file `plan`.

Every reply has `messages`, the library's own log from warnings up. Instead of its results it has `failure` if no engine
came of this model, or `error` if the library cannot work here at all.
"""

import importlib
import json
import sys
from typing import Any


def main(request_path: str, reply_path: str) -> None:
    """Serve the request in the file and write the reply."""
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    sys.path[:] = request["path"]
    trt = importlib.import_module(request["module"])
    messages: list[str] = []

    class Logger(trt.ILogger):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR, trt.ILogger.WARNING):
                messages.append(f"{severity.name}: {message}")

    reply: dict[str, Any] = {"messages": messages}
    try:
        if request["task"] == "describe":
            capabilities = getattr(trt, "ComputeCapability", None)
            names = list(capabilities.__members__) if capabilities else []
            reply |= {"version": trt.__version__, "compute_capabilities": names}
        else:
            reply |= serve(trt, Logger(), request)
    except Exception as error:
        reply["error"] = f"{type(error).__name__}: {error}"
    with open(reply_path, "w", encoding="utf-8") as file:
        json.dump(reply, file)


def serve(trt: Any, logger: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Parse the model and, if it was asked for, build the engine."""
    builder = trt.Builder(logger)
    network = create_network(trt, builder)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(request["model"]):
        return {"refusals": refused_nodes(trt, logger, builder, request["model"], parser)}
    if differences := compare_bindings(trt, network, request):
        return {"refusals": differences}
    if request["task"] == "check":
        return {"refusals": []}

    network.name = request["name"]  # without a name, plans differ from process to process
    config = builder.create_builder_config()
    capabilities = request["compute_capabilities"]
    if capabilities:
        config.num_compute_capabilities = len(capabilities)
        for index, name in enumerate(capabilities):
            config.set_compute_capability(trt.ComputeCapability.__members__[name], index)
    if any(-1 in network.get_input(index).shape for index in range(network.num_inputs)):
        profile = builder.create_optimization_profile()
        for binding in request["inputs"]:
            profile.set_shape(binding["name"], binding["min"], binding["opt"], binding["max"])
        if config.add_optimization_profile(profile) < 0:
            return {"error": "the optimization profile of the dynamic dimensions is not valid"}
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        return {"failure": "no engine was built"}
    with open(request["plan"], "wb") as file:
        file.write(memoryview(plan).cast("B"))
    return {"refusals": []}


def compare_bindings(
    trt: Any, network: Any, request: dict[str, Any]
) -> list[tuple[str | None, str]]:
    """Find inputs and outputs that the parser gave another name, type or rank than the model has: never build those."""
    found = {
        tensor.name: (tensor.dtype, len(tensor.shape))
        for tensor in (
            *(network.get_input(index) for index in range(network.num_inputs)),
            *(network.get_output(index) for index in range(network.num_outputs)),
        )
    }
    refusals: list[tuple[str | None, str]] = []
    for binding in (*request["inputs"], *request["outputs"]):
        expected = (trt.DataType.__members__[binding["trt_dtype"]], len(binding["shape"]))
        if found.get(binding["name"]) != expected:
            reason = f"{binding['name']} became {found.get(binding['name'])} in TensorRT, expected {expected}"
            refusals.append((binding.get("producer"), reason))
    return refusals


def create_network(trt: Any, builder: Any) -> Any:
    """Make an empty network in which every type is that of the model: TensorRT 11 and RTX know no other."""
    return builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def refused_nodes(
    trt: Any, logger: Any, builder: Any, path: str, parser: Any
) -> list[tuple[str | None, str]]:
    """List all nodes that the parser refuses. It stops at the first, so cut that one out of a copy and ask again."""
    import onnx

    model = onnx.load(path)
    refusals: list[tuple[str | None, str]] = []
    while True:
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        names = {node.name for node in model.graph.node}
        error = next(
            (error for error in errors if error.node_name() in names), errors[0] if errors else None
        )
        if error is None or error.node_name() not in names:
            # Not one node's fault, or one that was cut before: what is known now is all that can be known.
            return refusals or [
                (None, error.desc() if error else "the parser refused the model and says no reason")
            ]
        refusals.append((error.node_name(), f"{error.node_operator()}: {error.desc()}"))
        if not cut(model, error.node_name()):
            return refusals
        network = create_network(trt, builder)  # the parser does not keep it alive
        parser = trt.OnnxParser(network, logger)
        if parser.supports_model_v2(model.SerializeToString(), path):
            return refusals


def cut(model: Any, name: str) -> bool:
    """Take a node out of the model; its outputs become inputs. False if the type of an output is not known."""
    graph = model.graph
    types = {info.name: info for info in (*graph.value_info, *graph.output)}
    node = next(node for node in graph.node if node.name == name)
    produced = [output for output in node.output if output]
    if not all(output in types for output in produced):
        return False
    graph.input.extend(types[output] for output in produced)
    kept_outputs = [info for info in graph.output if info.name not in produced]
    if not kept_outputs:
        return False
    del graph.output[:]
    graph.output.extend(kept_outputs)
    graph.node.remove(node)
    return True


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

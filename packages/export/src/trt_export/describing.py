"""`trt-export info` for people: the content of a file as lines of text."""

from collections.abc import Iterable, Iterator

from trt_export.files.pt2 import Program, ProgramValue
from trt_export.files.pte import Value
from trt_export.inspecting.model import DelegateInfo, EngineInfo, MethodInfo, Pt2Info, PteInfo
from trt_export.report_lines import size_text


def info_lines(found: PteInfo | Pt2Info) -> list[str]:
    """One line for each thing in the file, indented by what it belongs to."""
    return list(_pte(found) if isinstance(found, PteInfo) else _pt2(found))


def _pte(pte: PteInfo) -> Iterator[str]:
    yield f"{pte.file}: ExecuTorch program, {size_text(pte.size)}, {_count(pte.methods, 'method')}"
    for method in pte.methods:
        yield f"method {method.name}"
        yield from _indent(_method(method))
    segments = sum(segment.size for segment in pte.segments)
    yield f"{_count(pte.segments, 'segment')}, {size_text(segments)}"
    for entry in pte.named_data:
        yield f"named data {entry.key!r}, {size_text(pte.segments[entry.segment].size)}"


def _method(method: MethodInfo) -> Iterator[str]:
    named = dict(enumerate(method.input_names))
    for index, value in enumerate(method.inputs):
        name = f", named {named[index]}" if index in named else ""
        yield f"input {index}: {_value(value)}{name}"
    sources = dict(method.mutated_inputs)
    for index, value in enumerate(method.outputs):
        mutated = f", input {sources[index]} as the model leaves it" if index in sources else ""
        yield f"output {index}: {_value(value)}{mutated}"
    for other, names in method.shared_buffers:
        yield f"shares with method {other}: {', '.join(names)}"
    if method.operators:
        yield f"kernels: {', '.join(method.operators)}"
    for delegate in method.delegates:
        yield f"delegate {delegate.backend}, payload of {size_text(delegate.size)}"
        yield from _indent(_delegate(delegate))
    if not method.delegates:
        yield "no delegates"


def _delegate(delegate: DelegateInfo) -> Iterator[str]:
    if delegate.problem:
        yield f"cannot be read: {delegate.problem}"
    if delegate.engine:
        yield from _engine(delegate.engine)
    if delegate.compile_specs:
        yield f"compile specs: {', '.join(delegate.compile_specs)}"


def _pt2(pt2: Pt2Info) -> Iterator[str]:
    yield (
        f"{pt2.file}: exported PyTorch program, {size_text(pt2.size)},"
        f" weights of {size_text(pt2.weights_size)}, {_count(pt2.engines, 'engine')}"
    )
    for program in pt2.programs:
        yield f"program {program.name}, saved by torch {program.torch_version}"
        yield from _indent(_program(program))
    for stored in pt2.engines:
        yield f"engine {stored.name} ({stored.type})"
        if stored.problem:
            yield f"  cannot be read: {stored.problem}"
        if stored.engine:
            yield from _indent(_engine(stored.engine))


def _program(program: Program) -> Iterator[str]:
    for value in program.inputs:
        yield f"input {_program_value(value)}"
    for value in program.outputs:
        yield f"output {_program_value(value)}"
    yield f"calls of engines: {program.calls}"
    others = [name for name in program.operators if "execute_engine" not in name]
    if others:
        yield f"operators in PyTorch: {', '.join(others)}"


def _engine(engine: EngineInfo) -> Iterator[str]:
    version = f" version {engine.plan_version}" if engine.plan_version else ", version unknown"
    yield f"plan: {engine.plan_format}{version}, {size_text(engine.plan_size)}, for {engine.device}"
    if engine.plan_format == "onnxruntime":
        yield "runs in ONNX Runtime on the CPU; this is no TensorRT engine"
    elif engine.compute_capabilities:
        yield f"compute capabilities: {', '.join(engine.compute_capabilities)}"
    else:
        yield "compute capabilities: unknown"
    for binding in engine.bindings:
        profile = ""
        if binding.profile:
            profile = "".join(f" {key} {_shape(sizes)}" for key, sizes in binding.profile.items())
        kind = (
            "dtype and shape are not in its record"
            if binding.shape is None
            else f"{binding.dtype} {_shape(binding.shape)}{profile}"
        )
        yield f"{binding.role} {binding.name}: {kind}"
    for output, source, kind in engine.aliased_io:
        yield f"output {output} is written into input {source} ({kind})"
    if engine.provenance:
        items = (f"{key} {_text(value)}" for key, value in sorted(engine.provenance.items()))
        yield f"made with: {', '.join(items)}"


def _value(value: Value) -> str:
    if value.sizes is None:
        return value.kind
    bound = "" if value.shape == "static" else f" ({value.shape}: sizes are the largest)"
    return f"{value.dtype} {_shape(value.sizes)}{bound}"


def _program_value(value: ProgramValue) -> str:
    return f"{value.name}: {value.kind if value.shape is None else f'{value.dtype} {_shape(value.shape)}'}"


def _shape(shape: Iterable[object]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _count(items: tuple[object, ...], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)

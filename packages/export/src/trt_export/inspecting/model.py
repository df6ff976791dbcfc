"""What a file holds, in fields."""

from dataclasses import dataclass
from typing import Any

from trt_export.files.pt2 import Program
from trt_export.files.pte import NamedData, Segment, Value


@dataclass(frozen=True)
class BindingInfo:
    """A binding of an engine; a free dimension is -1 in a `.pte`, its name or an expression in a `.pt2`.

    `dtype` and `shape` are None for an engine of torch-tensorrt in a `.pt2`, whose record does not tell them.
    """

    name: str
    role: str
    dtype: str | None
    shape: tuple[int | str, ...] | None
    profile: dict[str, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class EngineInfo:
    """An engine in a file. What the file does not tell is None; `sizes` are in bytes.

    `plan_version` is the version of the builder as the plan's header tells it (of our own header for
    `onnxruntime` plans), `compute_capabilities` the GPUs that it was built for. `provenance` is what the
    builder of trt-export wrote down: builder and versions.
    """

    name: str
    container: str
    plan_format: str
    plan_size: int
    plan_version: str | None
    compute_capabilities: tuple[str, ...] | None
    device: str
    hardware_compatible: bool
    target_platform: str
    bindings: tuple[BindingInfo, ...]
    aliased_io: tuple[tuple[str, str, str], ...]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class DelegateInfo:
    """A delegate; `engine` if it is one of ours, `problem` if its payload cannot be read."""

    backend: str
    offset: int
    size: int
    inline: bool
    compile_specs: tuple[str, ...]
    engine: EngineInfo | None = None
    problem: str | None = None


@dataclass(frozen=True)
class MethodInfo:
    """A method of a `.pte`.

    `input_names` is empty if the file does not have them. `mutated_inputs` has pairs of output and input: the output is
    the input as the model leaves it, and `trt_runtime.Program.run` writes it there. `shared_buffers` is for each method
    that shares memory with this one: its name, and the buffers (a byte offset where the file has no name).
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operators: tuple[str, ...]
    planned_memory: tuple[int, ...]
    delegates: tuple[DelegateInfo, ...]
    mutated_inputs: tuple[tuple[int, int], ...] = ()
    shared_buffers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    input_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class PteInfo:
    """What is in a `.pte`."""

    file: str
    size: int
    program_size: int
    methods: tuple[MethodInfo, ...]
    segments: tuple[Segment, ...]
    named_data: tuple[NamedData, ...]
    kind: str = "pte"

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file's delegates."""
        found = [d.problem for method in self.methods for d in method.delegates]
        return [problem for problem in found if problem]


@dataclass(frozen=True)
class StoredEngineInfo:
    """An engine in a `.pt2`; `problem` if it cannot be read."""

    name: str
    type: str
    engine: EngineInfo | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Pt2Info:
    """What is in a `.pt2`."""

    file: str
    size: int
    weights_size: int
    programs: tuple[Program, ...]
    engines: tuple[StoredEngineInfo, ...]
    kind: str = "pt2"

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file's engines."""
        return [engine.problem for engine in self.engines if engine.problem]

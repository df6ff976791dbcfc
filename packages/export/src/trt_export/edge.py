"""From compiled programs to ExecuTorch's edge dialect, and to a file."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.partitioner import Partitioner
from torch.export import ExportedProgram

from trt_export.delegate.backend import TensorRTBackend
from trt_export.delegate.held_outputs import hold_outputs, release_outputs
from trt_export.delegate.partitioner import EnginePartitioner
from trt_export.errors import LoweringError
from trt_export.files.atomic import check_writable, write_files
from trt_export.passes.pipeline import prepare
from trt_export.symbols import only_symbols

Partitioners: TypeAlias = Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]]


def to_edge(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    *,
    partitioners: Partitioners | None = None,
    transform_passes: Any = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Lower programs that call engines; every engine becomes a delegate `TensorRTBackend`.

    All methods are validated before the first is changed, the programs themselves never are. The rest of
    each program stays in ExecuTorch's edge dialect for its own kernels or for other partitioners. State that
    a program mutates stays outside of the delegates and keeps its initial value.

    Args:
        programs: a program of `trt_export.compile`, or several by method name; one alone is `forward`.
        partitioners: others to run before ours (such as XNNPACK's), for all methods or by method name.
        transform_passes: as `executorch.exir.to_edge_transform_and_lower` takes them; they see the engine
            calls as op `trt_export::execute_plan`.
        constant_methods: values that the file answers by method name.
        compile_config: ExecuTorch's own.

    Returns:
        ExecuTorch's own manager: go on with `save`, or with its `to_executorch`.

    Raises:
        NoEngineError: no method calls an engine.
        LoweringError: a call that cannot be lowered; its subclasses say why.
        EngineRecordError, PlanError: an engine that cannot be read.
    """
    methods = dict(programs) if isinstance(programs, Mapping) else {"forward": programs}
    _check_backend()
    prepared = prepare(methods)
    with only_symbols(prepared.values()):
        manager = to_edge_transform_and_lower(
            prepared,
            transform_passes=transform_passes,
            partitioner=_others(partitioners),
            constant_methods=dict(constant_methods) if constant_methods else None,
            compile_config=compile_config,
        )
    held = {method: hold_outputs(manager.exported_program(method)) for method in methods}
    manager = manager.to_backend({method: EnginePartitioner() for method in methods})
    for method in methods:
        program = manager.exported_program(method)
        release_outputs(program, held[method])
        _keep_initial_state(program)
    return manager


def save(
    manager: EdgeProgramManager | ExecutorchProgramManager,
    path: str | os.PathLike[str],
    *,
    config: ExecutorchBackendConfig | None = None,
) -> tuple[Path, ...]:
    """Write a `.pte`, and the data files beside it if its config asks for any: all whole, or none.

    Args:
        manager: what `to_edge` returned, or what its `to_executorch` returned.
        path: the file to write; one that is there is replaced.
        config: for `to_executorch`, if it has not been called yet.

    Returns:
        The files written, the `.pte` first.

    Raises:
        OutputFileError: the place cannot be written, or the disk is full; files that were there before
            are as they were.
    """
    check_writable(Path(path))
    return write_files(pte_writers(manager, path, config=config))


def pte_writers(
    manager: EdgeProgramManager | ExecutorchProgramManager,
    path: str | os.PathLike[str],
    *,
    config: ExecutorchBackendConfig | None = None,
) -> dict[Path, Callable[[BinaryIO], object]]:
    """What `save` writes, file by file, for those who write more along with it. Arguments as for `save`."""
    if isinstance(manager, EdgeProgramManager):
        manager = manager.to_executorch(config)
    elif config is not None:
        raise LoweringError("config is for to_executorch, which this manager has behind it")
    target = Path(path)
    data = {target.with_name(f"{name}.ptd"): cord for name, cord in manager._tensor_data.items()}
    return {
        target: manager.write_to_file,
        **{file: cord.write_to_file for file, cord in data.items()},
    }


def _check_backend() -> None:
    """ExecuTorch takes the first backend class of a name; another package may have brought one."""
    namesakes = [
        cls
        for cls in BackendDetails.__subclasses__()
        if cls.__name__ == TensorRTBackend.__name__ and cls is not TensorRTBackend
    ]
    if namesakes:
        raise LoweringError(
            f"{namesakes[0].__module__} has a backend {TensorRTBackend.__name__!r} too, and ExecuTorch cannot"
            " tell them apart: lower in a process that does not import it"
        )


def _others(partitioners: Partitioners | None) -> Any:
    if isinstance(partitioners, Mapping):
        return {method: list(items) for method, items in partitioners.items()}
    return None if partitioners is None else list(partitioners)


def _keep_initial_state(program: ExportedProgram) -> None:
    """Have ExecuTorch write the initial values of mutated buffers, which it else leaves at zero."""
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.nodes:
        target = buffers.get(node.name) if node.op == "placeholder" else None
        if target in mutated:
            value = program.state_dict.get(target, program.constants.get(target))
            if isinstance(value, torch.Tensor) and bool(value.any()):
                node.meta["et_init_buffer"] = True

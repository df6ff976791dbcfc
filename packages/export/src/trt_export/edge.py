"""From compiled programs to ExecuTorch's edge dialect, and to a file."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.partitioner import Partitioner
from torch.export import ExportedProgram

from trt_export.arguments import path_argument
from trt_export.delegate.caches import forget
from trt_export.delegate.call_arguments import check_save, check_to_edge
from trt_export.delegate.complex_numbers import check_complex_numbers
from trt_export.delegate.held_outputs import hold_outputs, release_outputs
from trt_export.delegate.initial_buffers import keep_initial_state
from trt_export.delegate.input_sizes import input_sizes
from trt_export.delegate.mutations import input_names, mutated_inputs
from trt_export.delegate.partitioner import EnginePartitioner
from trt_export.delegate.shared_buffers import planning_config
from trt_export.errors import LoweringError
from trt_export.files.atomic import check_writable, write_files
from trt_export.formats import Format
from trt_export.one_at_a_time import one_at_a_time
from trt_export.passes.blame import blame
from trt_export.passes.data_dependent import check_data_dependent_shapes
from trt_export.passes.pipeline import Pass, Pipeline
from trt_export.passes.prepare import PREPARE, Lowering
from trt_export.symbols import only_symbols
from trt_export.upstream_errors import of_caller, wrapped_errors

Partitioners: TypeAlias = Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]]


@one_at_a_time
def to_edge(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    *,
    partitioners: Partitioners | None = None,
    transform_passes: Any = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    format: Format | None = None,
    data_file: str | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> EdgeProgramManager:
    """Lower programs that call engines; every engine call becomes a delegate.

    The engines stay out of the graphs that ExecuTorch lowers, so that time and memory do not depend on their size, and
    each distinct plan is written once, however many calls, methods and engines have it.

    All methods are validated before the first is changed, the programs themselves never are. The rest of
    each program stays in ExecuTorch's edge dialect for its own kernels or for other partitioners. State that
    a program mutates stays outside of the delegates and keeps its initial value.

    Engines whose library lacks an accessor are read the slow way, with the same result and one `FallbackWarning`
    per process for each capability that is missing.

    Args:
        programs: a program of `trt_export.compile`, or several by method name; one alone is `forward`.
        partitioners: others to run before ours (such as XNNPACK's), for all methods or by method name.
        transform_passes: as `executorch.exir.to_edge_transform_and_lower` takes them; they see the engine
            calls as op `trt_export::execute_plan`.
        constant_methods: values that the file answers by method name.
        compile_config: ExecuTorch's own.
        format: how plans go into the file. `named-data` is for trt-runtime from 0.5.0 on; `tr01` puts them into the
            delegates' payloads, where the delegate of torch-tensorrt and older ones of trt-runtime look. Left out,
            it is the best that the delegate of each engine's own library reads.
        data_file: a name, such as `plans`: the plans go to a file of that name with the ending `.ptd`, beside the
            `.pte`. For `named-data` only.
        on_progress: called with the name of each pass, how many have run, and how many there are.

    Returns:
        ExecuTorch's own manager: go on with `save`, or with its `to_executorch`.

    Raises:
        ArgumentError: an argument of a type that it does not take.
        NoEngineError: no method calls an engine.
        MissingCapabilityError: an engine has to be read the slow way, and TRT_EXPORT_STRICT=1.
        LoweringError: a call that cannot be lowered; its subclasses say why. Also what torch and ExecuTorch raise, as
            `__cause__`, with the nodes it is likely about. Errors of `on_progress` and lack of memory come as they are.
        EngineRecordError, PlanError: an engine that cannot be read.
    """
    check_to_edge(
        programs,
        partitioners=partitioners,
        transform_passes=transform_passes,
        constant_methods=constant_methods,
        compile_config=compile_config,
        format=format,
        data_file=data_file,
        on_progress=on_progress,
    )
    state = EdgeLowering(
        dict(programs) if isinstance(programs, Mapping) else {"forward": programs},
        partitioners=_others(partitioners),
        transform_passes=transform_passes,
        constant_methods=dict(constant_methods) if constant_methods else None,
        compile_config=compile_config,
        format=format,
        data_file=data_file,
    )
    report = None if on_progress is None else of_caller(on_progress)
    pass_name = ""

    def on_start(name: str, done: int, total: int) -> None:
        nonlocal pass_name
        pass_name = name
        if report is not None:
            report(name, done, total)

    with wrapped_errors(
        LoweringError,
        lambda: f"to_edge, pass {pass_name!r}",
        lambda error: blame(state.prepared or _programs_of(state.programs), error),
        advice_first=True,
    ):
        Pipeline(PASSES).run(state, on_start=on_start)
    assert state.manager is not None
    return state.manager


@dataclass
class EdgeLowering(Lowering):
    """What the passes of `to_edge` hand on: ExecuTorch's options, its manager, and the outputs that were added."""

    partitioners: Any = None
    transform_passes: Any = None
    constant_methods: dict[str, Any] | None = None
    compile_config: EdgeCompileConfig | None = None
    manager: EdgeProgramManager | None = None
    held: dict[str, int] = field(default_factory=dict)

    def edge_programs(self) -> dict[str, ExportedProgram]:
        """The methods as ExecuTorch has them now."""
        assert self.manager is not None
        return {method: self.manager.exported_program(method) for method in self.programs}


def _lower(state: EdgeLowering) -> None:
    with only_symbols(state.prepared.values()):
        state.manager = to_edge_transform_and_lower(
            state.prepared,
            transform_passes=state.transform_passes,
            partitioner=state.partitioners,
            constant_methods=state.constant_methods,
            compile_config=state.compile_config,
        )


def _programs_of(programs: Mapping[str, Any]) -> dict[str, ExportedProgram]:
    """Return the methods that are programs."""
    return {name: item for name, item in programs.items() if isinstance(item, ExportedProgram)}


def _check_lowered(state: EdgeLowering) -> None:
    config = state.compile_config or EdgeCompileConfig()
    for method, program in state.edge_programs().items():
        check_data_dependent_shapes(method, program)
        check_complex_numbers(method, program, config._core_aten_ops_exception_list)


def _hold_outputs(state: EdgeLowering) -> None:
    state.held = {
        method: hold_outputs(program) for method, program in state.edge_programs().items()
    }


def _delegate(state: EdgeLowering) -> None:
    assert state.manager is not None
    programs = state.edge_programs()
    partitioner = EnginePartitioner(
        state.data_file,
        mutated_inputs(programs),
        input_names(programs),
        input_sizes(state.prepared),
    )
    state.manager = state.manager.to_backend(dict.fromkeys(state.programs, partitioner))


def _release_outputs(state: EdgeLowering) -> None:
    for method, program in state.edge_programs().items():
        release_outputs(program, state.held[method])


def _keep_state(state: EdgeLowering) -> None:
    for program in state.edge_programs().values():
        keep_initial_state(program)


def _forget(state: EdgeLowering) -> None:
    forget(state.edge_programs().values())


PASSES: tuple[Pass[EdgeLowering], ...] = (
    *PREPARE,
    Pass("lower", _lower, after=("rewrite",)),
    Pass("check-lowered", _check_lowered, after=("lower",)),
    Pass("hold-outputs", _hold_outputs, after=("check-lowered",)),
    Pass("delegate", _delegate, after=("hold-outputs",)),
    Pass("release-outputs", _release_outputs, after=("hold-outputs", "delegate")),
    Pass("keep-state", _keep_state, after=("release-outputs",)),
    Pass("forget", _forget, after=("keep-state",)),
)


@one_at_a_time
def save(
    manager: EdgeProgramManager | ExecutorchProgramManager,
    path: str | os.PathLike[str],
    *,
    config: ExecutorchBackendConfig | None = None,
    shared_buffers: Collection[str] | bool = False,
) -> tuple[Path, ...]:
    """Write a `.pte`, and the data files beside it if its config asks for any: all whole, or none.

    Args:
        manager: what `to_edge` returned, or what its `to_executorch` returned.
        path: the file to write; one that is there is replaced.
        config: for `to_executorch`, if it has not been called yet. It does not change, and may be used again.
        shared_buffers: mutated buffers, by name, that the methods share, such as the cache of prefill and decode; True
            for all that one method mutates and another one has too. They need the same dtype, shape and initial value
            in all methods. All other state is each method's own. The same goes for a `config` whose planner has
            `share_mutable_buffers`, which shares all buffers of one name.

    Returns:
        The files written, the `.pte` first.

    Raises:
        ArgumentError: an argument of a type that it does not take.
        LoweringError: buffers to share are missing or differ, or ExecuTorch fails (`__cause__`).
        OutputFileError: the place cannot be written, or the disk is full; files that were there before
            are as they were.
    """
    check_save(manager, config, shared_buffers)
    check_writable(path_argument("path", path))
    writers = pte_writers(manager, path, config=config, shared_buffers=shared_buffers)
    with wrapped_errors(
        LoweringError,
        "save, ExecuTorch's writing",
        "see the cause (`__cause__`) for ExecuTorch's own words",
    ):
        return write_files(writers)


@one_at_a_time
def pte_writers(
    manager: EdgeProgramManager | ExecutorchProgramManager,
    path: str | os.PathLike[str],
    *,
    config: ExecutorchBackendConfig | None = None,
    shared_buffers: Collection[str] | bool = False,
) -> dict[Path, Callable[[BinaryIO], object]]:
    """What `save` writes, file by file, for those who write more along with it. Arguments as for `save`."""
    if isinstance(manager, EdgeProgramManager):
        programs = {name: manager.exported_program(name) for name in sorted(manager.methods)}
        _check_unused(programs)
        planning = planning_config(config, programs, shared_buffers)
        edge = manager
        with wrapped_errors(
            LoweringError,
            "save, ExecuTorch's to_executorch",
            lambda error: blame(programs, error),
            advice_first=True,
        ):
            manager = edge.to_executorch(planning)
        forget(map(manager.exported_program, manager.methods))
    elif config is not None or shared_buffers:
        raise LoweringError(
            "expected what to_edge returned to go with config or shared_buffers, found what to_executorch returned;"
            " leave them out, or call save without to_executorch"
        )
    target = Path(path)
    data = {target.with_name(f"{name}.ptd"): cord for name, cord in manager._tensor_data.items()}
    return {
        target: manager.write_to_file,
        **{file: cord.write_to_file for file, cord in data.items()},
    }


def _check_unused(programs: Mapping[str, ExportedProgram]) -> None:
    """ExecuTorch's `to_executorch` writes buffers back in the manager's own graphs, and fails the second time."""
    for name, program in programs.items():
        (results,) = program.graph.output_node().args
        if len(results) != len(program.graph_signature.output_specs):
            raise LoweringError(
                f"method {name!r}: expected a manager that was not saved before, found one that was, which changes"
                " programs with state: keep what its to_executorch returns to write it twice, or call to_edge again"
            )


def _others(partitioners: Partitioners | None) -> Any:
    if isinstance(partitioners, Mapping):
        return {method: list(items) for method, items in partitioners.items()}
    return None if partitioners is None else list(partitioners)

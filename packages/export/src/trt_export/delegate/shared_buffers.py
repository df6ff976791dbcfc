"""Mutated buffers that methods of one `.pte` share, such as the KV cache of prefill and decode.

ExecuTorch's `MemoryPlanningPass(share_mutable_buffers=True)` puts the buffers of all methods into one memory, and takes
those of one name for one buffer without comparing them. Here they are compared first.
"""

import copy
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from torch.export import ExportedProgram

from trt_export.errors import LoweringError


def planning_config(
    config: ExecutorchBackendConfig | None,
    programs: Mapping[str, ExportedProgram],
    shared_buffers: Collection[str] | bool = False,
) -> ExecutorchBackendConfig:
    """Return a config to lower `programs` with once; `config` itself does not change and may be used again.

    Args:
        config: the caller's.
        programs: the methods in Edge dialect.
        shared_buffers: as `save` takes it.

    Raises:
        LoweringError: buffers to share are missing or differ, or a planner of another kind is to share them.
    """
    config = ExecutorchBackendConfig() if config is None else config
    planners = config.memory_planning_pass
    if isinstance(shared_buffers, str):
        raise LoweringError(
            f"shared_buffers: expected a list of names, found {shared_buffers!r}; write [{shared_buffers!r}]"
        )
    if not shared_buffers:
        return _with_new_planners(config, programs)
    names = _names(programs, shared_buffers)
    if type(planners) is not MemoryPlanningPass:
        raise LoweringError(
            f"shared_buffers: expected one MemoryPlanningPass in the config, found {type(planners).__name__}; leave"
            " memory_planning_pass out, or set share_mutable_buffers in it and leave shared_buffers out"
        )
    _compare(programs, names)
    return dataclasses.replace(
        config,
        memory_planning_pass=_PlansSharedBuffers(planners, names),
        emit_mutable_buffer_names=True,
    )


def _with_new_planners(
    config: ExecutorchBackendConfig, programs: Mapping[str, ExportedProgram]
) -> ExecutorchBackendConfig:
    """A planner that shares buffers collects those of each lowering, so each lowering gets a new one."""
    planners = config.memory_planning_pass
    if not isinstance(planners, dict):
        if _shares(planners):
            _compare(programs, _common(programs))
        fresh: Any = _fresh(planners)
        shares = _shares(planners)
    else:
        for planner in filter(_shares, planners.values()):
            methods = [method for method, other in planners.items() if other is planner]
            if len(methods) > 1:  # ExecuTorch (1.4) would place its buffers once for each of them
                raise LoweringError(
                    f"memory_planning_pass: expected a planner for each method, found one that shares for"
                    f" {' and '.join(methods)}; give it alone, for all methods, or use shared_buffers"
                )
        fresh = {method: _fresh(planner) for method, planner in planners.items()}
        shares = any(map(_shares, planners.values()))
    return dataclasses.replace(
        config,
        memory_planning_pass=fresh,
        emit_mutable_buffer_names=shares or config.emit_mutable_buffer_names,
    )


class _PlansSharedBuffers(MemoryPlanningPass):  # type: ignore[misc]
    """Shares the buffers of some names; others are their method's own, also if another method has one of that name."""

    def __init__(self, planner: MemoryPlanningPass, names: Collection[str]) -> None:
        super().__init__(
            memory_planning_algo=planner.memory_planning_algo,
            allow_lifetime_and_storage_overlap=planner.allow_lifetime_and_storage_overlap,
            alloc_graph_input=planner.alloc_graph_input,
            alloc_graph_output=planner.alloc_graph_output,
            alloc_mutable_buffers=True,
            share_mutable_buffers=True,
            alignment=planner.alignment,
        )
        self._names = frozenset(names)
        self._methods = 0

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        result = super().run(graph_module, graph_signature)
        # What `run` collected by name for `run_multimethod`, which gives each entry one place.
        for name in [name for name in self.state.mutable_buffers if name not in self._names]:
            if not name.startswith(_OWN):
                own = f"{_OWN}{self._methods}.{name}"
                self.state.mutable_buffers[own] = self.state.mutable_buffers.pop(name)
        for name in [name for name in self.state.maybe_mutable_buffers if name not in self._names]:
            del self.state.maybe_mutable_buffers[name]
        self._methods += 1
        return result


_OWN = "trt_export.method."


def _shares(planner: Any) -> bool:
    return bool(getattr(planner, "share_mutable_buffers", False))


def _fresh(planner: Any) -> Any:
    """The planner without what it collected."""
    if not _shares(planner) or not hasattr(planner, "state"):
        return planner
    fresh = copy.copy(planner)
    fresh.state = type(planner.state)()
    return fresh


def _buffers(program: ExportedProgram) -> dict[str, torch.Tensor]:
    values = {**program.state_dict, **program.constants}
    return {name: values[name] for name in program.graph_signature.buffers if name in values}


def _mutated(program: ExportedProgram) -> set[str]:
    return set(program.graph_signature.buffers_to_mutate.values())


def _common(programs: Mapping[str, ExportedProgram]) -> list[str]:
    """The buffers that some method mutates and another one has."""
    buffers = [set(_buffers(program)) for program in programs.values()]
    mutated = set().union(*map(_mutated, programs.values()))
    return sorted(name for name in mutated if sum(name in own for own in buffers) > 1)


def _names(
    programs: Mapping[str, ExportedProgram], shared_buffers: Collection[str] | bool
) -> list[str]:
    common = _common(programs)
    if isinstance(shared_buffers, bool):
        wrong = [] if common else ["any"]
        names = common
    else:
        names = list(dict.fromkeys(shared_buffers))
        wrong = [name for name in names if name not in common]
    if wrong:
        found = {method: sorted(_mutated(program)) for method, program in programs.items()}
        raise LoweringError(
            f"shared_buffers: expected buffers that one method mutates and another one has too, found no such {wrong};"
            f" the methods mutate {found} (a buffer that a method only reads is a constant of its engine)"
        )
    return names


def _compare(programs: Mapping[str, ExportedProgram], names: Collection[str]) -> None:
    for name in names:
        first: tuple[str, torch.Tensor] | None = None
        for method, program in programs.items():
            value = _buffers(program).get(name)
            if value is None:
                continue
            if first is None:
                first = method, value
                continue
            difference = _difference(first[1], value)
            if difference is not None:
                raise LoweringError(
                    f"buffer {name!r}, shared by methods {first[0]!r} and {method!r}: expected one dtype, shape and"
                    f" initial value in both, found {difference}; export both methods from one module, or do not share"
                    " it (shared_buffers with the names of the others)"
                )


def _difference(first: torch.Tensor, second: torch.Tensor) -> str | None:
    for what in ("dtype", "shape"):
        if getattr(first, what) != getattr(second, what):
            return f"{what} {getattr(first, what)} and {getattr(second, what)}"
    same = first == second
    if first.is_floating_point():
        same |= first.isnan() & second.isnan()
    return None if bool(same.all()) else "different initial values"

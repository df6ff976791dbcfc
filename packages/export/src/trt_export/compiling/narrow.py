"""Makes bounds that the user stated known to torch itself, without telling the source program."""

import copy
from collections.abc import Mapping
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges


def narrow(program: ExportedProgram, ranges: Mapping[sympy.Symbol, ValueRanges[Any]]) -> None:
    """Give the program's fake tensors a shape environment of their own, in which these symbols have these ranges.

    ExecuTorch plans memory by the ranges in that environment, not by the program's `range_constraints`; and programs
    share it: `run_decompositions` and even `copy.deepcopy` keep the source's.
    """
    movers: dict[int, _Mover] = {}
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            node.meta.pop("tensor_meta", None)  # says again what "val" says
            if "val" in node.meta:
                node.meta["val"] = pytree.tree_map(
                    lambda value: _moved(value, ranges, movers), node.meta["val"]
                )


class _Mover:
    """Moves values from one shape environment into a copy of it."""

    def __init__(
        self, environment: ShapeEnv, ranges: Mapping[sympy.Symbol, ValueRanges[Any]]
    ) -> None:
        self.environment = copy.copy(environment)
        for name, value in vars(environment).items():
            if isinstance(value, (dict, list, set)):
                setattr(self.environment, name, copy.copy(value))
        self.environment.fake_tensor_cache = {}  # results that are still at home in the old one
        for symbol, stated in ranges.items():
            # The lower end of 2 that torch.export assumes stays: else every question whether it is 1 becomes a guard.
            assumed = self.environment.var_to_range[symbol]
            self.environment.var_to_range[symbol] = (
                assumed & stated if stated.upper >= assumed.lower else stated
            )
        self.mode = FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=self.environment, export=True
        )
        self._tensors: dict[FakeTensor, FakeTensor] = {}

    def size(self, size: Any) -> Any:
        node = size.node
        return type(size)(
            SymNode(node._expr, self.environment, node.pytype, node._hint, node.constant)
        )

    def tensor(self, tensor: FakeTensor) -> FakeTensor:
        if tensor not in self._tensors:
            sizes, strides = (
                [self.size(size) if hasattr(size, "node") else size for size in numbers]
                for numbers in (tensor.size(), tensor.stride())
            )
            # Making a tensor asks whether sizes are 1: no question of the program's, so no guard for it.
            with self.mode, self.environment.suppress_guards():
                moved = torch.empty_strided(
                    sizes, strides, dtype=tensor.dtype, device=tensor.device
                )
            assert isinstance(moved, FakeTensor)
            self._tensors[tensor] = moved
        return self._tensors[tensor]


def _moved(
    value: Any, ranges: Mapping[sympy.Symbol, ValueRanges[Any]], movers: dict[int, _Mover]
) -> Any:
    environment = None
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        environment = value.node.shape_env
    elif isinstance(value, FakeTensor) and value.layout is torch.strided:
        environment = value.fake_mode.shape_env
    if environment is None:
        return value
    if id(environment) not in movers:
        movers[id(environment)] = _Mover(environment, ranges)
    mover = movers[id(environment)]
    return mover.tensor(value) if isinstance(value, FakeTensor) else mover.size(value)

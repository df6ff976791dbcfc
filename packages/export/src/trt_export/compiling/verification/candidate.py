"""A partition that is to be verified, and what runs it."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch.fx import Node

import trt_runtime
from trt_export.builders import ReferenceSession
from trt_export.compiling.onnx_model import OnnxPartition
from trt_export.compiling.support import values_of
from trt_export.compiling.verification.agreement import agree, as_array
from trt_export.compiling.verification.blame import Blame
from trt_export.compiling.verification.recording import Evaluation

INT8_PRODUCTS = {
    "MatMulInteger",
    "ConvInteger",
    "QLinearMatMul",
    "QLinearConv",
    "QuantizeLinear",
    "DynamicQuantizeLinear",
}


class Candidate:
    """A partition with its engine; without one (None), ONNX Runtime runs the partition's ONNX model as it is written.

    An engine is run by the installed trt-runtime, so with the options that it will be run with.
    """

    def __init__(self, model: OnnxPartition, engine: trt_runtime.Engine | None) -> None:
        self.model = model
        self.nodes = model.subprogram.nodes
        self._engine = engine
        self._widened = engine is None and any(
            isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16
            for node in (*self.nodes, *model.subprogram.inputs)
            for value in values_of(node)
        )

    @property
    def must_run(self) -> bool:
        """Whether it speaks against the partition that ONNX Runtime cannot run it."""
        return self._engine is not None

    @property
    def borders(self) -> tuple[Node, ...]:
        """The nodes whose values are needed to compare it."""
        return (*self.model.subprogram.inputs, *self.model.subprogram.outputs)

    @property
    def method(self) -> str:
        """What is compared, for the report."""
        if self._engine is not None:
            return f"the engine, run by trt-runtime {version('trt-runtime')}"
        model = f"its ONNX model, run by ONNX Runtime {onnxruntime.__version__} on the CPU"
        return f"{model} in float32 for bfloat16" if self._widened else model

    @property
    def doubt(self) -> str | None:
        """Why its numbers may be wrong on another processor than this one."""
        names: frozenset[str] = getattr(trt_runtime, "capabilities", frozenset)()
        if (
            self._engine is None
            or "exact-int8" in names
            or not self.model.file.operators & INT8_PRODUCTS
        ):
            return None
        return (
            f"it has int8 products, which trt-runtime {version('trt-runtime')} computes wrong by several percent on "
            "x86 processors without VNNI: pip install -U trt-runtime (from 0.6.0 on it does not)"
        )

    @cached_property
    def blame(self) -> Blame:
        """What compares it node by node."""
        return Blame(self.model, optimized=self._engine is not None, widened=self._widened)

    def run(self, values: Mapping[Node, Any]) -> list[np.ndarray]:
        """Run it; raises what trt-runtime or ONNX Runtime raise."""
        inputs = [values[node].detach().cpu() for node in self.model.subprogram.inputs]
        if self._engine is not None:
            with torch.no_grad():
                return [output.numpy() for output in self._engine(*inputs)]
        return self._reference.run(
            [as_array(x.float() if x.dtype is torch.bfloat16 else x) for x in inputs]
        )

    def agrees(self, outputs: Sequence[np.ndarray], values: Mapping[Node, Any]) -> bool:
        """Whether outputs are what PyTorch computes."""
        nodes = self.model.subprogram.outputs
        if self._widened or any(node not in values for node in nodes):
            values = self._computed(values)
        return all(agree(one, values[node]) for one, node in zip(outputs, nodes, strict=True))

    def fails(self, values: Mapping[Node, Any]) -> bool:
        """Whether it does not run or computes something else."""
        try:
            return not self.agrees(self.run(values), values)
        except MemoryError:
            raise
        except Exception:
            return self.must_run

    def _computed(self, values: Mapping[Node, Any]) -> dict[Node, Any]:
        found: dict[Node, Any] = {}
        outputs = set(self.model.subprogram.outputs)

        def keep(node: Node, value: Any) -> Any:
            if node in outputs:
                found[node] = value
            return value

        Evaluation(self.model.subprogram, values, widened=self._widened).run(keep)
        return found

    @cached_property
    def _reference(self) -> ReferenceSession:
        return ReferenceSession(self.model.file, widened=self._widened)

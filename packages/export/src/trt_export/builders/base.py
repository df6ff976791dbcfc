"""What every builder offers: it judges the ONNX model of a partition node by node and turns it into a plan."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.builders.onnx_file import OnnxFile
from trt_export.builders.plan_file import Plan
from trt_export.hints import hint


@dataclass(frozen=True)
class Binding:
    """An input or output of an engine.

    `dtype` is torch's name without `torch.`. `shape` has an integer per static dimension and an expression over the
    input dimensions (docs/engine-record.md) per dynamic one. `min`, `opt` and `max` are the sizes that an input may
    have, one per dimension; they are empty for an output. If `multiple` and `offset` are not empty, a size is also an
    integer times its multiple plus its offset.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    min: tuple[int, ...] = ()
    opt: tuple[int, ...] = ()
    max: tuple[int, ...] = ()
    multiple: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return an input as the record has it: `multiple` and `offset` only where they say something."""
        return {
            key: value
            for key, value in vars(self).items()
            if value or key not in ("multiple", "offset")
        }


@dataclass(frozen=True)
class BuildRequest:
    """One partition on its way to a plan: its name, its ONNX model, and its bindings in the model's order."""

    name: str
    model: OnnxFile
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]


@dataclass(frozen=True)
class NodeRefusal:
    """A node of the ONNX model that the builder cannot take. `onnx_node` is None if the builder names none."""

    onnx_node: str | None
    reason: str


class NodesRefused(Exception):  # noqa: N818  (a message to `compile`, which takes the nodes out: not an error)
    """Raised by `Builder.build` if only building shows that nodes cannot be taken."""

    def __init__(self, refusals: Sequence[NodeRefusal]) -> None:
        super().__init__("; ".join(refusal.reason for refusal in refusals))
        self.refusals = tuple(refusals)


def build_for_rtx() -> str:
    """Return how a caller chooses the builder that builds for GPUs without one."""
    return hint('builder="tensorrt-rtx"', "--builder tensorrt-rtx")


class Builder(ABC):
    """Makes plans. A builder holds its options and no other state, so one instance serves any number of programs.

    `name` is what `compile(builder=...)` takes; `refused_dtypes` maps torch dtype names to the reason why no binding
    or value of that type may reach this builder; `runs_onnxruntime` says whether its plans are run by ONNX Runtime.
    """

    name: str
    runs_onnxruntime = False
    refused_dtypes: Mapping[str, str]

    @abstractmethod
    def device(self, tensors_on: str) -> str:
        """Return the device (`"cpu"`, `"cuda:N"`) of an engine made from nodes whose tensors are on `tensors_on`."""

    @abstractmethod
    def provenance(self) -> dict[str, Any]:
        """Return what the record and the plan say of the builder: `builder`, `builder_version` and its options."""

    @abstractmethod
    def check(self, request: BuildRequest) -> list[NodeRefusal]:
        """Ask the real parser or runtime which nodes it refuses; an empty list means that it takes the model."""

    @abstractmethod
    def build(self, request: BuildRequest) -> Plan:
        """Make the plan: bytes, or a file that has them.

        Raises:
            NodesRefused: nodes of this model cannot be taken.
            BuildFailedError: the builder cannot work here; the message has its log.
        """

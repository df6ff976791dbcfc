"""The builder that runs anywhere: its plan is the ONNX model itself, which ONNX Runtime executes on the CPU."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import IO, Any

import onnxruntime

from trt_export.builders.base import Builder, BuildRequest, NodeRefusal, NodesRefused, build_for_rtx
from trt_export.builders.onnx_file import PROTOBUF_LIMIT
from trt_export.builders.onnx_session import check_kernels
from trt_export.builders.plan_file import Plan, write_plan
from trt_export.errors import BuildFailedError
from trt_export.plan import write_onnxruntime_plan_to
from trt_export.upstream_errors import first_line

EXTERNAL_WEIGHTS = "external-weights"
"""The capability of a trt-runtime that runs plans whose weights lie behind the model."""


def _refused_dtypes() -> Mapping[str, str]:
    return {
        "bfloat16": "ONNX Runtime's CPU kernels have no bfloat16: convert the model to float32 or float16, "
        f"or build for TensorRT ({build_for_rtx()})"
    }


class OnnxRuntimeBuilder(Builder):
    """Makes `onnxruntime` plans: our header and the partition's ONNX model. Needs no GPU and no TensorRT."""

    name = "onnxruntime"
    runs_onnxruntime = True

    refused_dtypes: Mapping[str, str] = _refused_dtypes()

    def __init__(self, *, largest_model: int = PROTOBUF_LIMIT) -> None:
        """Make a builder; models of `largest_model` bytes and more get plans whose weights lie behind the model."""
        self._largest_model = largest_model
        if type(self).refused_dtypes is OnnxRuntimeBuilder.refused_dtypes:  # else a subclass's own
            self.refused_dtypes = _refused_dtypes()  # in the words of who reads it now

    def device(self, tensors_on: str) -> str:
        """Return `"cpu"`: ONNX Runtime runs on the CPU here, wherever the tensors of the program are."""
        return "cpu"

    def provenance(self) -> dict[str, Any]:
        """Return the builder's name and ONNX Runtime's version."""
        return {"builder": self.name, "builder_version": onnxruntime.__version__}

    def check(self, request: BuildRequest) -> list[NodeRefusal]:
        """Open a session over the model without its weights: it looks up the kernel of every node."""
        try:
            check_kernels(request.model)
        except MemoryError:
            raise
        except Exception as error:  # onnxruntime's exceptions have no common base but this
            name = request.model.named_node(str(error))
            return [NodeRefusal(name, f"ONNX Runtime: {first_line(error)}")]
        return []

    def build(self, request: BuildRequest) -> Plan:
        """Write the model behind our header, if `check` has nothing against it.

        The weights of a model that is too large for one ONNX file lie behind it (docs/engine-record.md).

        Raises:
            NodesRefused: it has.
            BuildFailedError: the installed trt-runtime runs no model that large.
        """
        fits = request.model.fits(self._largest_model)
        if not fits:
            _require_external_weights(request)
        if refusals := self.check(request):
            raise NodesRefused(refusals)
        model, provenance = request.model, self.provenance()

        def write(file: IO[bytes]) -> None:
            if fits:
                write_onnxruntime_plan_to(file, model.chunks(), provenance)
            else:
                size, chunks = model.external_chunks()
                write_onnxruntime_plan_to(file, chunks, provenance, size)

        return write_plan(model.weights_size, write)


def _require_external_weights(request: BuildRequest) -> None:
    """Raise BuildFailedError if the installed trt-runtime reads no weights behind a model."""
    import trt_runtime

    names: frozenset[str] = getattr(trt_runtime, "capabilities", frozenset)()
    if EXTERNAL_WEIGHTS not in names:
        raise BuildFailedError(
            f"the weights of {request.name} have {request.model.weights_size} bytes, more than one ONNX model can "
            f"hold: expected a trt-runtime with the capability {EXTERNAL_WEIGHTS}, found trt-runtime "
            f"{version('trt-runtime')}; pip install -U 'trt-runtime>=0.7.0', or split the model, or build it for "
            f"TensorRT ({build_for_rtx()})"
        )

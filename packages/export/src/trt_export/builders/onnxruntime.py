"""The builder that runs anywhere: its plan is the ONNX model itself, which ONNX Runtime executes on the CPU."""

from collections.abc import Mapping
from typing import Any

import onnxruntime

from trt_export.builders.base import Builder, BuildRequest, NodeRefusal, NodesRefused, build_for_rtx
from trt_export.builders.onnx_session import check_kernels
from trt_export.errors import BuildFailedError
from trt_export.plan import write_onnxruntime_plan
from trt_export.upstream_errors import first_line


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

    def __init__(self) -> None:
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

    def build(self, request: BuildRequest) -> bytes:
        """Write the model behind our header, if `check` has nothing against it.

        Raises:
            NodesRefused: it has.
            BuildFailedError: the model has 2 GiB or more, which one ONNX file cannot hold.
        """
        if not request.model.fits_one_file:
            raise BuildFailedError(
                f"the weights of {request.name} have {request.model.weights_size} bytes, and one ONNX model cannot "
                f"hold 2 GiB or more: split the model, or build it for TensorRT ({build_for_rtx()})"
            )
        if refusals := self.check(request):
            raise NodesRefused(refusals)
        return write_onnxruntime_plan(request.model.chunks(), self.provenance())

"""Takes operators apart that torch.onnx cannot convert, and makes programs functional."""

from trt_export.compiling.decomposition.decompose import decompose

__all__ = ["decompose"]

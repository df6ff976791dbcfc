"""The forms in which a plan goes into a `.pte`, and the delegate that reads each.

`named-data`: the plan lies in the file's named data, once for all delegates that have it, and a delegate's payload is a
small header that has its key. `tr01`: the plan lies in each delegate's payload, as the ExecuTorch backend of
torch-tensorrt reads it. `docs/delegate.md` describes both.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from trt_export.engines.probe import NAMED_DATA_DELEGATE, OWN_CLASS, EngineCapabilities
from trt_export.errors import LoweringError

Format: TypeAlias = Literal["named-data", "tr01"]

NAMED_DATA: Format = "named-data"
TR01: Format = "tr01"
# The ids in a `.pte`, which are the class names in `delegate.backend`.
BACKENDS: Mapping[Format, str] = {NAMED_DATA: "TrtRuntimeBackend", TR01: "TensorRTBackend"}


def check_format(format: str | None) -> None:
    """Check what a caller asks for; None stands for the best that each engine's own library reads.

    Raises:
        LoweringError: no such format.
    """
    if format is not None and format not in BACKENDS:
        raise LoweringError(f"expected the format {' or '.join(BACKENDS)}, found {format!r:.40}")


def backend_for(engine: EngineCapabilities, format: Format | None) -> str:
    """The id of the delegate for an engine.

    Raises:
        LoweringError: `named-data` for an engine of torch-tensorrt, whose delegate does not read that.
    """
    if format == NAMED_DATA and engine.engine_class != OWN_CLASS:
        raise LoweringError(
            f"expected an engine of trt-runtime for the format {NAMED_DATA}, found one of class"
            f" {engine.engine_class}, whose delegate reads {TR01} only: leave the format out, or use {TR01!r}"
        )
    if format is None:
        format = NAMED_DATA if NAMED_DATA_DELEGATE in engine else TR01
    return BACKENDS[format]

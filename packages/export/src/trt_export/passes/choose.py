"""Which form the plan of an engine gets in the `.pte`."""

from trt_export.engines.probe import NAMED_DATA_DELEGATE, OWN_CLASS, EngineCapabilities
from trt_export.errors import LoweringError
from trt_export.formats import BACKENDS, NAMED_DATA, TR01, Format
from trt_export.hints import hint


def check_format(format: str | None) -> None:
    """Check what a caller asks for; None stands for the best that each engine's own library reads.

    Raises:
        LoweringError: no such format.
    """
    if format is not None and format not in BACKENDS:
        raise LoweringError(f"expected the format {' or '.join(BACKENDS)}, found {format!r:.40}")


def backend_for(
    engine: EngineCapabilities, format: Format | None, data_file: str | None = None
) -> str:
    """The id of the delegate for an engine.

    Raises:
        LoweringError: `named-data` for an engine of torch-tensorrt, whose delegate does not read that; or a data file
            for a plan that is not in named data.
    """
    if format == NAMED_DATA and engine.engine_class != OWN_CLASS:
        raise LoweringError(
            f"expected an engine of trt-runtime for the format {NAMED_DATA}, found one of class"
            f" {engine.engine_class}, whose delegate reads {TR01} only: leave the format out, or use {TR01!r}"
        )
    if format is None:
        format = NAMED_DATA if NAMED_DATA_DELEGATE in engine else TR01
    if data_file is not None and format != NAMED_DATA:
        option = hint("data_file", "--data-file")
        wanted = hint(f"format={NAMED_DATA!r}", f"--format {NAMED_DATA}")
        raise LoweringError(
            f"{option} {data_file!r}: expected a plan in named data, found one that goes into its delegate's payload"
            f" (format {TR01}); leave {option} out, or ask for {wanted}, which trt-runtime reads from 0.5.0 on"
        )
    return BACKENDS[format]

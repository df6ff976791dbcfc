"""Which delegate an engine gets: what its own library reads, unless the caller asks for something."""

import pytest

from trt_export.engines.probe import (
    FOREIGN_CLASS,
    NAMED_DATA_DELEGATE,
    OWN_CLASS,
    EngineCapabilities,
)
from trt_export.passes.choose import backend_for

NEW = EngineCapabilities(OWN_CLASS, frozenset({NAMED_DATA_DELEGATE.name}), ())
OLD = EngineCapabilities(OWN_CLASS, frozenset(), ())
FOREIGN = EngineCapabilities(FOREIGN_CLASS, frozenset(), ())


@pytest.mark.parametrize(
    ("engine", "format", "backend"),
    [
        (NEW, None, "TrtRuntimeBackend"),
        (OLD, None, "TensorRTBackend"),
        (FOREIGN, None, "TensorRTBackend"),
        (NEW, "tr01", "TensorRTBackend"),
        (OLD, "named-data", "TrtRuntimeBackend"),  # for another machine, which has a newer runtime
    ],
)
def test_a_delegate_that_reads_the_plan(engine, format, backend) -> None:
    assert backend_for(engine, format) == backend

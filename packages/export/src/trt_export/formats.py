"""The forms in which a plan goes into a `.pte`, and the delegate that reads each.

`named-data`: the plan lies in the file's named data, once for all delegates that have it, and a delegate's payload is a
small header that has its key. `tr01`: the plan lies in each delegate's payload, as the ExecuTorch backend of
torch-tensorrt reads it. `docs/delegate.md` describes both.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Format: TypeAlias = Literal["named-data", "tr01"]

NAMED_DATA: Format = "named-data"
TR01: Format = "tr01"
# The ids in a `.pte`, which are the class names in `delegate.backend`.
BACKENDS: Mapping[Format, str] = {NAMED_DATA: "TrtRuntimeBackend", TR01: "TensorRTBackend"}

# The compile spec with the name of the data file that plans go to; without it they are in the `.pte`.
DATA_FILE = "data_file"
# The compile spec with the outputs that are mutated inputs: JSON, pairs of output and input by method.
MUTATED_INPUTS = "mutated_inputs"
# The compile spec with the names of the inputs: JSON, a list of names by method.
INPUT_NAMES = "input_names"
# The compile spec with the sizes that inputs may have: JSON, by method with dynamic inputs (`delegate/input_sizes.py`).
INPUT_SIZES = "input_sizes"


def key_of(sha256: str) -> str:
    """The key, in named data, of the plan with this sha256 in hex."""
    return f"trt-plan-sha256-{sha256}"

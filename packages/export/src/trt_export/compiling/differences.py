"""What an operator computes differently in ONNX Runtime, where no translation avoids it at no cost.

docs/numerics.md has the measured values; its test holds that the operators here are those that differ there.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torch._ops import OpOverload
from torch.fx import Node

_NAN = "NaN may be lost: the result may be another number of the row"
_POOL = "NaN may be lost, and a window of -infinity alone may give the lowest finite number"
_INDEX = "the index may be of another number than the NaN"
_TIES = "of equal numbers others may come first, so the indices differ; NaN may be lost"
_SCATTER = "NaN may be lost; include_self=False turns infinities into the largest finite numbers"
_FLOAT64 = "in float64, a row with NaN may give finite numbers"

DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "aten.amax.default": _NAN,
        "aten.amin.default": _NAN,
        "aten.argmax.default": _INDEX,
        "aten.argmin.default": _INDEX,
        "aten.linalg_vector_norm.default": f"of order infinity or -infinity: {_NAN}",
        "aten._log_softmax.default": _FLOAT64,
        "aten.log_softmax.int": _FLOAT64,
        "aten.special_log_softmax.default": _FLOAT64,
        "aten.logcumsumexp.default": "a row with infinity gives NaN",
        "aten.logit.default": "with eps, NaN gives the largest result",
        "aten.max.default": _NAN,
        "aten.max.dim": _NAN,
        "aten.mean.dim": "the mean of no numbers is 0, not NaN",
        "aten.min.default": _NAN,
        "aten.min.dim": _NAN,
        "aten.max_pool1d.default": _POOL,
        "aten.max_pool2d.default": _POOL,
        "aten.max_pool2d_with_indices.default": _POOL,
        "aten.max_pool3d.default": _POOL,
        "aten.max_pool3d_with_indices.default": _POOL,
        "aten.scatter_reduce.two": _SCATTER,
        "aten.topk.default": _TIES,
        "aten.upsample_linear1d.default": "NaN and infinity of one channel or sample may reach others",
    }
)


def differences(nodes: Iterable[Node]) -> dict[str, str]:
    """Return what differs, once per operator of the nodes, in their order."""
    operators = (str(node.target) for node in nodes if isinstance(node.target, OpOverload))
    return {operator: DIFFERENCES[operator] for operator in operators if operator in DIFFERENCES}

"""The plans of programs that are being lowered, by a key of their content.

A graph carries the key, so that nothing which copies or hashes a graph touches a plan. A plan stays here as long as
someone holds its `StoredPlan`: the lowering that put it in, and then the named data of the program that came of it. No
graph holds one: torch keeps graphs alive in caches of its own.
"""

import threading
import weakref
from dataclasses import dataclass

import torch

from trt_export.errors import LoweringError
from trt_export.formats import key_of


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """A plan: a uint8 tensor of shape [size] on the CPU, and the sha256 of its bytes in hex."""

    tensor: torch.Tensor
    sha256: str

    @property
    def key(self) -> str:
        """Equal for equal plans; also its key among the named data of a `.pte`."""
        return key_of(self.sha256)

    @property
    def data(self) -> memoryview:
        """Its bytes: a view, which keeps them alive."""
        data: memoryview = self.tensor.numpy().data
        return data


_plans: weakref.WeakValueDictionary[str, StoredPlan] = weakref.WeakValueDictionary()
_lock = threading.RLock()  # a signal handler may store a plan while its thread does


def store(tensor: torch.Tensor, sha256: str) -> StoredPlan:
    """Store a plan; one with the same content that is stored already is returned in its place.

    Args:
        tensor: uint8 of shape [size], on the CPU; it must not change.
        sha256: of its bytes, in hex.
    """
    plan = StoredPlan(tensor, sha256)
    with _lock:
        return _plans.setdefault(plan.key, plan)


def find(key: str) -> StoredPlan:
    """The plan with this key.

    Raises:
        LoweringError: nobody holds it any more.
    """
    with _lock:
        plan = _plans.get(key)
    if plan is None:
        raise LoweringError(
            f"expected the plan {key!r} of an engine call in this process, where its program was rewritten; it is"
            " gone: lower the compiled program in one go, with trt_export.to_edge"
        )
    return plan

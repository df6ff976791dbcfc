"""A plan as ExecuTorch's serializers take it: by reference, down to the write of the file."""

from functools import cache
from typing import Any

from executorch.exir._serialize._cord import Cord
from executorch.exir._serialize._named_data_store import NamedDataStore

from trt_export.passes.plan_store import StoredPlan

# Bytes. Small enough for a CPU's cache, which a page of a mapped plan then is in when it is copied into the file:
# 512 MB are written as fast as `cp` copies them, in one piece they took 2.5 times as long.
_PIECE = 1 << 18


class PlanBuffer(Cord):  # type: ignore[misc]
    """A plan among the buffers of ExecuTorch's named data, which are `bytes` by their types.

    ExecuTorch asks a buffer for its length, compares it, takes a slice of its beginning as a fingerprint, and in the
    end appends it to the `Cord` of the file, which takes another `Cord` by its pieces: those of this one are views of
    the plan, each as large as one write should be.
    """

    def __init__(self, plan: StoredPlan) -> None:
        super().__init__()
        self._plan = plan
        data = plan.data
        self._buffers = [data[at : at + _PIECE] for at in range(0, data.nbytes, _PIECE)]
        self._byte_size = data.nbytes

    def __getitem__(self, index: slice) -> bytes:
        """A slice of the digest. It tells plans apart, where their first bytes would have all of them hashed again."""
        return bytes.fromhex(self._plan.sha256)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanBuffer) and other._plan.sha256 == self._plan.sha256

    def __hash__(self) -> int:
        return hash(self._plan.sha256)

    def __deepcopy__(self, memo: object) -> "PlanBuffer":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


def buffer_of(plan: StoredPlan) -> PlanBuffer | bytes:
    """The plan for ExecuTorch's named data: a view, or a copy if this ExecuTorch takes nothing else."""
    return PlanBuffer(plan) if _takes_views() else bytes(plan.data)


@cache
def _takes_views() -> bool:
    """Try, with two small buffers, all that ExecuTorch does with named data on the way to a file."""
    import torch

    plans = [
        StoredPlan(torch.full((48,), number, dtype=torch.uint8), f"{number:064x}")
        for number in range(2)
    ]
    try:
        merged, stores = NamedDataStore(), []
        for plan in (*plans, *plans):
            one = NamedDataStore()
            one.add_named_data(plan.key, PlanBuffer(plan), 64)
            stores.append(one.get_named_data_store_output())
        for one in stores:
            merged.merge_named_data_store(one)
        buffers = merged.get_named_data_store_output().buffers
        written = [bytes(Cord(buffer)) for buffer in buffers]
    except Exception:  # whatever another version does with what it did not expect
        return False
    return written == [bytes(plan.data) for plan in plans]

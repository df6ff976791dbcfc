"""Which methods of a `.pte` share the memory of mutated buffers.

ExecuTorch's planner puts shared buffers (`share_mutable_buffers`) into a memory of their own, number 2, of one size
for all methods of the file, at the same offset in each method that has the buffer. trt-export also writes their names.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ProgramError
from .signature import SHARED_MEMORY, Signature, Slot


def sharing_groups(signatures: Mapping[str, Signature]) -> list[tuple[str, ...]]:
    """Return the groups of two or more methods that share buffers, directly or through a third method.

    Raises:
        ProgramError: two methods have different tensors at one place of the shared memory.

    """
    sizes = {signature.planned[SHARED_MEMORY:] for signature in signatures.values()}
    if len(sizes) != 1 or len(sizes.pop()) != 1:
        return []  # there is no memory 2, or it belongs to another memory plan
    owners: dict[int, tuple[str, Slot]] = {}
    group_of = {name: {name} for name in signatures}
    for name, signature in signatures.items():
        for slot in signature.state:
            other, first = owners.setdefault(slot.offset, (name, slot))
            if slot != first:
                raise ProgramError(
                    f"methods {other!r} and {name!r}: expected one buffer at byte {slot.offset} of their shared "
                    f"memory, found {first} and {slot}; write the file again with trt_export.save, which compares "
                    "the buffers that it shares"
                )
            merged = group_of[other] | group_of[name]
            for member in merged:
                group_of[member] = merged
    groups = {id(group): tuple(sorted(group)) for group in group_of.values() if len(group) > 1}
    return list(groups.values())

"""Reading an engine: its record and its plan, each once, in the cheapest way that the engine knows.

An engine that lacks an accessor is read through its full state, which every release has: correct, and slower.
Engines are read here and nowhere else.
"""

import hashlib
import re
from typing import Any

import torch

from trt_export.engines.probe import (
    ENGINE_TENSOR,
    FOREIGN_CLASS,
    METADATA_ONLY,
    PLAN_DIGEST,
    EngineCapabilities,
)
from trt_export.engines.slots import (
    FOREIGN_ABIS,
    OWN_ABIS,
    MetadataRecord,
    full_record,
    metadata_record,
)
from trt_export.errors import EngineRecordError


class EngineReader:
    """One engine. What was read is kept for as long as the reader lives, which is one lowering."""

    def __init__(self, engine: torch.ScriptObject, capabilities: EngineCapabilities) -> None:
        self._engine: Any = engine
        self._capabilities = capabilities
        self._abis = FOREIGN_ABIS if self.is_foreign else OWN_ABIS
        self._metadata: MetadataRecord | None = None
        self._plan: torch.Tensor | None = None
        self._sha256: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether the engine is one of torch-tensorrt, which has no metadata that is read."""
        return self._capabilities.engine_class == FOREIGN_CLASS

    def metadata(self) -> MetadataRecord:
        """The record, without the plan.

        Raises:
            EngineRecordError: a record that this version does not read.
            CorruptPlanError: the whole state had to be read, and its plan is not base64.
        """
        if self._metadata is None and METADATA_ONLY in self._capabilities:
            slots = self._ask("serialize_metadata_only")
            self._metadata = metadata_record(_a_list(slots), self._abis)
        if self._metadata is None:
            self._read_whole()
        assert self._metadata is not None
        return self._metadata

    def plan(self) -> torch.Tensor:
        """The plan: a uint8 tensor of shape [size] on the CPU, the engine's own memory where it gives that.

        Raises:
            EngineRecordError, CorruptPlanError: as `metadata`.
        """
        if self._plan is None and ENGINE_TENSOR in self._capabilities:
            self._plan = _checked(self._ask("serialized_engine_tensor"))
        if self._plan is None:
            self._read_whole()
        assert self._plan is not None
        return self._plan

    def sha256(self) -> str:
        """The sha256 of the plan, in hex; an engine that keeps it is not read for it.

        Raises:
            EngineRecordError, CorruptPlanError: as `metadata`.
        """
        if self._sha256 is None and PLAN_DIGEST in self._capabilities:
            self._sha256 = _hex(self._ask("plan_sha256"))
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self.plan().numpy().data).hexdigest()
        return self._sha256

    def _read_whole(self) -> None:
        """Serialize the engine, and keep what there is no other way to; both if both are lacking."""
        state = self._ask("__getstate__")
        if isinstance(state, tuple):  # torch adds the class name.
            state = state[0]
        full = full_record(_a_list(state), self._abis)
        del state  # A third more than the plan itself.
        if METADATA_ONLY not in self._capabilities:
            self._metadata = full.metadata
        if ENGINE_TENSOR not in self._capabilities:
            data = full.decode_plan()
            self._plan = (
                torch.frombuffer(data, dtype=torch.uint8)
                if data
                else torch.empty(0, dtype=torch.uint8)
            )

    def _ask(self, method: str) -> Any:
        try:
            return getattr(self._engine, method)()
        except (
            RuntimeError,
            UnicodeDecodeError,
        ) as error:  # What TorchBind makes of any C++ exception.
            raise EngineRecordError(
                f"an engine of class {self._capabilities.engine_class} does not answer {method}(): {error}"
            ) from error


def _a_list(state: object) -> list[object]:
    if not isinstance(state, list):
        raise EngineRecordError(
            f"an engine's state must be a list of strings, found {type(state).__name__}"
        )
    return state


def _checked(plan: object) -> torch.Tensor:
    if not (
        isinstance(plan, torch.Tensor)
        and (plan.dtype, plan.dim(), plan.device.type) == (torch.uint8, 1, "cpu")
        and plan.is_contiguous()
    ):
        found = (
            f"{plan.dtype} {list(plan.shape)} on {plan.device}"
            if isinstance(plan, torch.Tensor)
            else type(plan).__name__
        )
        raise EngineRecordError(
            "serialized_engine_tensor() must give a contiguous uint8 tensor of one dimension on the CPU,"
            f" found {found}"
        )
    return plan


def _hex(digest: object) -> str:
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise EngineRecordError(f"plan_sha256() must give 64 hex digits, found {digest!r:.80}")
    return digest

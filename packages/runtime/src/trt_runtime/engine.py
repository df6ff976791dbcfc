"""`Engine`: the typed face of the native engine object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._library.fake_class_registry import maybe_unwrap_fake_script_object

from . import _native
from .buffers import hold, map_file
from .errors import RecordError
from .info import EngineInfo, PlanInfo
from .json_text import is_text
from .record import fields_from_info, info_from_fields

_Buffer = Any  # bytes, bytearray, memoryview, mmap, numpy array: whatever has the buffer protocol


class Engine:
    """A plan and its record. Lazy: the plan is deserialized by the first call.

    Calling it runs it: ``engine(*tensors)`` takes the tensors of `EngineInfo.inputs` and returns those
    of `EngineInfo.outputs`. It may be called from several threads.
    """

    __slots__ = ("_info", "_object")

    def __init__(self, script_object: torch.ScriptObject) -> None:
        """Wrap an engine object; `from_script_object` is the same by name."""
        self._object = script_object
        self._info: EngineInfo | None = None

    @classmethod
    def from_plan(
        cls, plan: str | os.PathLike[str] | _Buffer, record: Mapping[str, Any] | EngineInfo
    ) -> Engine:
        """Make an engine; nothing is deserialized and no GPU is needed.

        Args:
            plan: the path of a file, or the plan's bytes. A file is mapped, not read: it takes no memory
                of this process, and it must keep its bytes for as long as the engine lives. Replacing it
                (``os.replace``, as builders and installers do) is fine, as is deleting it; writing to
                it in place changes the plan under the engine, and cutting it off ends the process
                (SIGBUS). ``bytes``, the `plan` of another engine and ``mmap`` objects that are read-only
                (``access=mmap.ACCESS_READ``, for which the same holds as for a path) are held, not
                copied; any other buffer is copied once.
            record: as in docs/engine-record.md, "Record as a mapping". Without ``plan`` in it the
                plan's size and sha256 are computed here, which reads all of it.

        Raises:
            RecordError: the record is no good.
            PlanError: the plan is no plan, or not the record's; the file is empty or no regular file.
            OSError: the file cannot be opened.

        """
        native_plan = map_file(plan) if isinstance(plan, (str, os.PathLike)) else hold(plan)
        info = record if isinstance(record, EngineInfo) else EngineInfo.from_mapping(record)
        if info.plan is None:
            native_plan.vouches_for_itself = True
            size = memoryview(native_plan).nbytes
            info = replace(info, plan=PlanInfo(native_plan.format, size, native_plan.sha256))
        return cls(_native.make_engine(native_plan, fields_from_info(info)))

    @classmethod
    def from_script_object(cls, script_object: torch.ScriptObject) -> Engine:
        """Wrap the engine object of a program, such as ``program.constants["engine"]``."""
        return cls(maybe_unwrap_fake_script_object(script_object))

    @classmethod
    def deserialize(cls, slots: Sequence[str]) -> Engine:
        """Make an engine of what `serialize` returned; raises RecordError or PlanError."""
        if None in slots:
            raise RecordError(
                "engine record: expected the plan in the engine slot, found None: a record without its "
                "plan is no engine; use serialize(), or Engine.from_plan with the plan and the info"
            )
        for index, slot in enumerate(slots):
            if not isinstance(slot, str) or not is_text(slot):
                raise RecordError(
                    f"engine record: expected strings of whole characters, found {slot!r:.80} at index "
                    f"{index}; the record is damaged, make it again"
                )
        return cls(_native.deserialize_engine(list(slots)))

    @property
    def script_object(self) -> torch.ScriptObject:
        """The native object, ``torch.classes.trt_runtime.Engine``: what graphs and programs hold."""
        return self._object

    @property
    def info(self) -> EngineInfo:
        """The record; touches no byte of the plan."""
        if self._info is None:
            self._info = info_from_fields(_native.engine_fields(self._object))
        return self._info

    @property
    def plan(self) -> memoryview:
        """The plan's bytes: read-only, no copy; keeps them alive."""
        return memoryview(_native.engine_plan(self._object))

    @property
    def plan_tensor(self) -> torch.Tensor:
        """The plan's bytes as a uint8 tensor of shape [size] on the CPU: no copy; keeps them alive.

        For reading only, though torch cannot enforce it: writing to it damages the engine, which then
        does not load (PlanError). (If the plan is a read-only ``mmap`` of yours, writing ends the
        process.) It cannot be resized.
        """
        tensor: torch.Tensor = self._object.serialized_engine_tensor()  # type: ignore[attr-defined]
        return tensor

    @property
    def plan_sha256(self) -> str:
        """The sha256 of all bytes of the plan, in hex. The first who asks has them read; they are read once.

        The record says what it should be (``info.plan.sha256``); this is what it is.
        """
        digest: str = self._object.plan_sha256()  # type: ignore[attr-defined]
        return digest

    def serialize(self) -> list[str]:
        """Return the 13 strings of docs/engine-record.md, the plan in base64: slow and large."""
        slots: list[str] = self._object.serialize()  # type: ignore[attr-defined]
        return slots

    def serialize_metadata_only(self) -> list[str | None]:
        """Return what `serialize` does, None in place of the plan; touches no byte of the plan."""
        slots: list[str | None] = self._object.serialize_metadata_only()  # type: ignore[attr-defined]
        return slots

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Run the engine.

        Raises:
            InputError: the inputs are not what the record says.
            PlanError: the plan is damaged; found by the first call.
            ExecutorUnavailableError: nothing here can run it.
            ExecutionError: it was run and failed.

        """
        outputs: list[torch.Tensor] = torch.ops.trt_runtime.execute_engine(
            list(inputs), self._object
        )
        return outputs

    def record(self) -> dict[str, Any]:
        """Return the record by field name: what `EngineInfo.to_mapping` of `info` is; touches no byte of the plan.

        Raises:
            RecordError: a field of `info.extra` or of the provenance holds an integer of more than 64 bits, or is
                nested more than 100 deep: torch has no value for the one and no patience for the other.

        """
        return _native.engine_record(self._object)

    def __reduce__(self) -> tuple[Any, tuple[torch.ScriptObject]]:
        return Engine.from_script_object, (self._object,)  # state.py has the rest

    def __repr__(self) -> str:
        info = self.info
        plan = info.plan
        assert plan is not None  # checked when the engine was made
        return (
            f"<trt_runtime.Engine '{info.name}' {plan.format} {plan.size} bytes on {info.device}>"
        )

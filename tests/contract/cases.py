"""The files in docs/contract as Python values; docs/contract/README.md says what their keys mean.

The standard library alone is used, since the fuzzers' seeds come from here too.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "contract"


def load(name: str) -> dict[str, Any]:
    """The file ``name``.json."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def text_of(text: str | Sequence[Sequence[Any]]) -> str:
    """A text as it is, or as a list of pieces, each with how many times it is there."""
    return text if isinstance(text, str) else "".join(piece * times for piece, times in text)


def changed(value: Any, case: dict[str, Any], prefix: str = "") -> Any:
    """A copy of a JSON value with what the case has under `set` and `remove`, by paths such as `inputs.0.name`."""
    result = json.loads(json.dumps(value))
    for path, new in case.get("set", {}).items():
        holder, key = _place(result, prefix + path)
        holder[key] = (
            text_of(new["text"]) if isinstance(new, dict) and set(new) == {"text"} else new
        )
    for path in case.get("remove", []):
        holder, key = _place(result, prefix + path)
        del holder[key]
    return result


def _place(value: Any, path: str) -> tuple[Any, Any]:
    *parents, key = (int(part) if part.isdecimal() else part for part in path.split("."))
    for parent in parents:
        value = value[parent]
    return value, key


# The order of the 13 slots.
SLOTS = (
    *(
        "ABI",
        "name",
        "device",
        "engine",
        "input names",
        "output names",
        "hardware-compatible",
        "metadata",
    ),
    *("target platform", "requires output allocator", "resource allocation strategy"),
    *("requires native multi-device", "aliased I/O"),
)


def slots_of(record: dict[str, Any]) -> list[Any]:
    """A record as 13 slots; metadata that is no text is written as JSON."""
    values = [record[name] for name in SLOTS if name in record] + record.get("more", [])
    return [json.dumps(value) if isinstance(value, dict) else value for value in values]


def json_bytes(value: Any) -> bytes:
    """A JSON value as bytes: compact, or what stands under `raw` (text) or `hex`."""
    if isinstance(value, dict) and set(value) == {"raw"}:
        return text_of(value["raw"]).encode()
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return json.dumps(value, separators=(",", ":")).encode()


def _framed(whole: bytes, case: dict[str, Any]) -> bytes:
    cut = whole[: case["cut"]] if "cut" in case else whole
    return cut + bytes.fromhex(case.get("append", ""))


def plan_bytes(case: dict[str, Any], base: dict[str, Any]) -> bytes:
    """A plan of plans.json: its bytes under `hex`, or an `onnxruntime` plan by its header's fields."""
    if "hex" in case:
        return _framed(bytes.fromhex(case["hex"]), case)
    provenance = json_bytes(case.get("provenance", base["provenance"]))
    payload = bytes.fromhex(case.get("payload", base["payload"]))
    offset = -(-(64 + len(provenance)) // 64) * 64
    fields = {
        "magic": "ortp", "version": 1, "flags": 0, "payload offset": offset,
        "provenance size": len(provenance), "payload size": len(payload),
        "sha256": hashlib.sha256(payload).hexdigest(), "reserved": "00" * 8, **case.get("header", {}),
    }  # fmt: skip
    padding = case.get("padding", {"zeros": offset - 64 - len(provenance)})
    padding = bytes(padding["zeros"]) if isinstance(padding, dict) else bytes.fromhex(padding)
    return _framed(_packed("<4sHHIIQ32s8s", fields) + provenance + padding + payload, case)


def payload_bytes(case: dict[str, Any], contract: dict[str, Any]) -> bytes:
    """A delegate's payload of payloads.json."""
    base = contract["bases"][case["base"]]
    metadata = changed(base["metadata"], case)
    if isinstance(metadata.get("serialized_metadata"), dict):
        metadata["serialized_metadata"] = json.dumps(metadata["serialized_metadata"])
    text = json_bytes(case.get("metadata", metadata))
    plan = bytes.fromhex(contract["plan"])
    if case["base"] == "TRTN":
        fields = {
            "magic": "TRTN", "version": 1, "flags": 0, "header size": 64, "metadata size": len(text),
            "plan size": len(plan), "plan sha256": hashlib.sha256(plan).hexdigest(), "reserved": "00" * 8,
            **case.get("header", {}),
        }  # fmt: skip
        more = bytes.fromhex(case.get("more header", ""))
        return _framed(_packed("<4sHHIIQ32s8s", fields) + more + text, case)
    offset = -(-(32 + len(text)) // 16) * 16
    fields = {
        "magic": case["base"], "metadata offset": 32, "metadata size": len(text), "engine offset": offset,
        "engine size": len(plan), "reserved": "0100000000000000", **case.get("header", {}),
    }  # fmt: skip
    return _framed((_packed("<4sIIIQ8s", fields) + text).ljust(offset, b"\0") + plan, case)


def _packed(layout: str, fields: dict[str, Any]) -> bytes:
    magic, *rest = fields.values()
    return struct.pack(
        layout,
        magic.encode("latin-1"),
        *(bytes.fromhex(value) if isinstance(value, str) else value for value in rest),
    )

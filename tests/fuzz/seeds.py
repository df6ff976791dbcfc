"""Write the seeds of the fuzzers: valid payloads, records and plans, and ones that are nearly so.

    python seeds.py FOLDER

Makes ``FOLDER/blob`` and its like, one small file a seed. Layouts: docs/delegate.md, docs/engine-record.md.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLAN = b"vtrt" + bytes(60)
METADATA: dict[str, Any] = {
    "io_bindings": [
        {"name": "in_0", "dtype": "float32", "shape": [-1, 8], "is_input": True},
        {"name": "out_0", "dtype": "int64", "shape": [], "is_input": False},
    ],
    "hardware_compatible": False,
    "device_id": -1,
    "serialized_metadata": '{"schema": 1}',
    "target_platform": "linux_x86_64",
}
ALIASES = [{"output": "out_0", "input": "in_0", "kind": "kv_cache_update"}]


def payload(metadata: bytes, magic: bytes = b"TR01", **header: int) -> bytes:
    """A delegate's payload; ``header`` overrides fields of it."""
    offset = -(-(32 + len(metadata)) // 16) * 16
    fields = {"at": 32, "size": len(metadata), "plan_at": offset, "plan_size": len(PLAN), **header}
    packed = struct.pack("<4sIIIQ8s", magic, *fields.values(), b"\x01" + bytes(7))
    return (packed + metadata).ljust(offset, b"\0") + PLAN


def blobs() -> Mapping[str, bytes]:
    """Payloads by name."""
    text = json.dumps(METADATA, separators=(",", ":")).encode()
    aliased = json.dumps({**METADATA, "aliased_io": ALIASES}).encode()
    end = len(payload(text))
    binding = b'{"name":"a","dtype":"float32","shape":[1],"is_input":true}'
    return {
        "whole": payload(text),
        "aliased": payload(aliased, b"TR02"),
        "aliased_but_tr01": payload(aliased),
        "minimal": payload(b'{"io_bindings":[]}'),
        "one_binding": payload(b'{"io_bindings":[' + binding + b"]}"),
        "cut_off": payload(text)[:40],
        "no_plan": payload(text, plan_size=0),
        "plan_outside": payload(text, plan_at=2**32 - 16),
        # A size that fits if the subtraction of an offset beyond the end wraps: nobody guesses it.
        "plan_outside_and_wrapped": payload(text, plan_at=2**16, plan_size=2**64 + end - 2**16),
        "plan_too_long": payload(text, plan_size=2**64 - 1),
        "metadata_in_header": payload(text, at=8),
        "metadata_too_long": payload(text, size=2**32 - 1),
        "nested": payload(b"[" * 500),
        "numbers": payload(b'{"io_bindings":[],"device_id":1e999}'),
        "not_utf8": payload(b'{"io_bindings":[],"target_platform":"\xff"}'),
        "quoted_in_the_error": payload(b'{"io_\x7f\x18\xff'),
        "empty": b"",
    }


def reference(metadata: bytes, magic: bytes = b"TRTN", **header: int) -> bytes:
    """A payload that refers to its plan; ``header`` overrides fields of it."""
    fields = {
        "version": 1, "flags": 0, "header_size": 64, "size": len(metadata), "plan_size": 100, **header,
    }  # fmt: skip
    return struct.pack("<4sHHIIQ32s8x", magic, *fields.values(), bytes(range(32))) + metadata


def references() -> Mapping[str, bytes]:
    """Payloads that refer to their plans, by name."""
    text = b'{"record":{"name":"e"},"inputs":["a","b"],"outputs":["c"]}'
    return {
        "whole": reference(text),
        "longer_header": reference(bytes(16) + text, header_size=80, size=len(text)),
        "cut_off": reference(text)[:-4],
        "only_a_header": reference(b""),
        "newer": reference(text, version=2),
        "flags": reference(text, flags=1),
        "metadata_outside": reference(text, header_size=2**32 - 1),
        "wrapped": reference(text, header_size=2**32 - 64, size=len(text) + 128),
        "names_twice": reference(text.replace(b'"b"', b'"a"')),
        "no_outputs": reference(text.replace(b'"c"', b"")),
        "no_record": reference(b'{"inputs":["a"],"outputs":["c"]}'),
        "record_is_a_list": reference(b'{"record":[],"inputs":["a"],"outputs":["c"]}'),
        "name_is_a_number": reference(text.replace(b'"a"', b"1")),
        "nested": reference(b"[" * 500),
        "not_utf8": reference(text.replace(b"e", b"\xff", 1)),
        "empty": b"",
    }


def records() -> Mapping[str, bytes]:
    """Records by name, a slot a line."""
    slots = [
        "10", "engine", "-1%0%0%-1%cpu", "dnRydA==", "in_0%in_1", "out_0", "0", '{"schema":1}',
        "linux_x86_64", "0", "0", "0", "out_0@in_0@kv_cache_update",
    ]  # fmt: skip
    whole = "\n".join(slots)
    return {
        "whole": whole.encode(),
        "gpu": whole.replace(slots[2], "0%8%9%0%GPU").encode(),
        "short": "\n".join(slots[:7]).encode(),
        "other_abi": whole.replace("10", "9", 1).encode(),
        "names_twice": whole.replace("in_1", "in_0").encode(),
    }


def plans() -> Mapping[str, bytes]:
    """Plans by name."""
    header = struct.pack("<4sHHIIQ32s8x", b"ortp", 1, 0, 128, 2, 4, bytes(32))
    return {
        "onnxruntime": (header + b"{}").ljust(128, b"\0") + b"onnx",
        "only_a_header": header,
        "outside_and_wrapped": struct.pack("<4sHHIIQ40x", b"ortp", 1, 0, 128, 2, 2**64 + 64 - 128),
        "cut_off": header[:40],
        "tensorrt": b"ftrt" + bytes(32),
        "tensorrt_rtx": PLAN,
    }


def main(folder: Path) -> None:
    """Write all seeds."""
    texts = {"bytes": b"QUJDRA==", "broken": b"QUJD*A=="}
    for kind, seeds in {
        "blob": blobs(),
        "reference": references(),
        "record": records(),
        "plan": plans(),
        "base64": texts,
    }.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / kind / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

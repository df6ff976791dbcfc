"""Makes the engine files that are measured, once, with the working trees of both halves.

    python -m bench.engines table FOLDER ROWS
    python -m bench.engines opaque FOLDER MEGABYTES
    python -m bench.engines encoder FOLDER

Each folder gets ``engine.plan`` and its record in ``engine.json``, which is written last: its presence says that the
folder is whole. Big plans are written in pieces, so that making one takes no memory either.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import struct
import sys
from pathlib import Path
from typing import Any

MB = 1 << 20
COLUMNS = 1024  # float32: a row is 4 KiB
ROW = 1  # the row that a measured process looks up
_HEADER = struct.Struct("<4sHHIIQ32s8x")  # docs/engine-record.md
_ALIGNMENT = 64
_DEMO = Path(__file__).parents[2] / "examples" / "sentence_encoder.py"


def binding(name: str, dtype: str, *shape: int | str, largest: int = 16) -> dict[str, Any]:
    """An input of a record; free dimensions go from 1 to ``largest``."""
    return {
        "name": name,
        "dtype": dtype,
        "shape": list(shape),
        "min": [dim if isinstance(dim, int) else 1 for dim in shape],
        "opt": [dim if isinstance(dim, int) else 4 for dim in shape],
        "max": [dim if isinstance(dim, int) else largest for dim in shape],
    }


def record(inputs: list[dict[str, Any]], output: dict[str, Any], device: str) -> dict[str, Any]:
    """A record as a mapping. The plan's digest is not in it, as when `trt_export.compile` makes an engine."""
    return {
        "name": "bench",
        "device": device,
        "inputs": inputs,
        "outputs": [output],
        "provenance": {"builder": "by hand"},
    }


def make_table(folder: Path, rows: int) -> None:
    """An `onnxruntime` plan that looks rows up in a random table, which lies aligned as trt-export writes it."""
    import numpy as np

    generator = np.random.default_rng(rows)
    size = rows * COLUMNS * 4
    head = _model_up_to_table(rows)
    path = folder / "engine.plan"
    offset = -(-(_HEADER.size + 2) // _ALIGNMENT) * _ALIGNMENT
    digest = hashlib.sha256(head)
    with path.open("wb") as file:
        file.write(bytes(offset) + head)
        for start in range(0, rows, 4096):
            piece = generator.random((min(4096, rows - start), COLUMNS), np.float32)
            if start == 0:
                looked_up = piece[ROW].tolist()
            digest.update(piece.data)
            file.write(piece.data)
        file.seek(0)
        file.write(
            _HEADER.pack(b"ortp", 1, 0, offset, 2, len(head) + size, digest.digest()) + b"{}"
        )
    output = {"name": "rows", "dtype": "float32", "shape": ["i0d0", COLUMNS]}
    (folder / "expected.json").write_text(json.dumps(looked_up))
    _finish(folder, record([binding("index", "int64", "i0d0")], output, "cpu"))


def _model_up_to_table(rows: int) -> bytes:
    """A serialized ONNX model that lacks nothing but the bytes of its table, with which it ends.

    Protobuf merges the two graphs that this makes; a comment moves the table to a multiple of 64.
    """
    from onnx import TensorProto, helper

    def value(name: str, element: int, shape: list[int | None]) -> Any:
        return helper.make_tensor_value_info(name, element, shape)

    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "index"], ["rows"])],
        "bench",
        [value("index", TensorProto.INT64, [None])],
        [value("rows", TensorProto.FLOAT, [None, COLUMNS])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    data: bytes = model.SerializeToString()
    size = rows * COLUMNS * 4
    for comment in range(1, 2 * _ALIGNMENT):
        tensor: bytes = TensorProto(
            name="table",
            data_type=TensorProto.FLOAT,
            dims=[rows, COLUMNS],
            doc_string=" " * comment,
        ).SerializeToString()
        tensor += _field(9) + _varint(size)  # raw_data
        inner = _field(5) + _varint(len(tensor) + size) + tensor  # GraphProto.initializer
        whole = data + _field(7) + _varint(len(inner) + size) + inner  # ModelProto.graph
        if len(whole) % _ALIGNMENT == 0:
            return whole
    raise AssertionError("a comment of some length aligns the table")


def _field(number: int) -> bytes:
    return bytes([number << 3 | 2])


def _varint(number: int) -> bytes:
    low = bytes([number & 127 | (number > 127) << 7])
    return low + _varint(number >> 7) if number > 127 else low


def make_opaque(folder: Path, megabytes: int) -> None:
    """A plan with the header of a TensorRT-RTX one, never run. One random block over and over, nothing sparse."""
    size, block = megabytes * MB, os.urandom(16 * MB)
    with (folder / "engine.plan").open("wb") as file:
        for _ in range(0, size, len(block)):
            file.write(block[: size - file.tell()])
        header = bytearray(64)
        header[:4] = b"vtrt"
        struct.pack_into("<Q", header, 16, size)
        header[24:28] = bytes([1, 7, 1, 116])  # the version
        struct.pack_into("<I", header, 32, 0b1110)  # for SM80, SM86 and SM89
        file.seek(0)
        file.write(header)
    output = {"name": "out_0", "dtype": "float32", "shape": ["i0d0", 4]}
    _finish(folder, record([binding("in_0", "float32", "i0d0", 8)], output, "cuda:0"))


def make_encoder(folder: Path) -> None:
    """The sentence encoder's TensorRT-RTX engine; needs what ``nox -s demo`` installs."""
    import torch

    import trt_export
    import trt_runtime

    demo = runpy.run_path(str(_DEMO))
    model, tokenizer = demo["load_model"]()
    tokens = tokenizer(demo["SENTENCES"], padding=True, return_tensors="pt")
    with torch.no_grad():
        program = demo["export"](model, tokens["input_ids"], tokens["attention_mask"])
        compiled = trt_export.compile(program, builder="tensorrt-rtx")
    (held,) = (v for v in compiled.constants.values() if isinstance(v, torch.ScriptObject))
    engine = trt_runtime.Engine.from_script_object(held)
    (folder / "engine.plan").write_bytes(engine.plan)
    _finish(folder, {**engine.info.to_mapping(), "plan": None})


def _finish(folder: Path, made: dict[str, Any]) -> None:
    if made.get("plan", ...) is None:
        del made["plan"]
    draft = folder / "engine.json.part"
    draft.write_text(json.dumps(made))
    draft.rename(folder / "engine.json")


def main(kind: str, folder: Path, size: int) -> None:
    """Make one engine."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "table":
        make_table(folder, size)
    elif kind == "opaque":
        make_opaque(folder, size)
    else:
        make_encoder(folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)

"""What messages say: the file that they are about, and a way out in the words of their reader."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.export import Dim, export

import trt_export
from trt_export.cli import main
from trt_export.errors import TrtExportError


def zipped(name: str, content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def bent(data: bytes) -> bytes:
    """The same with a byte of its compressed content changed."""
    place = data.index(b".json") + 8
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


MODEL = "m/models/model.json"
DAMAGED = {
    "empty": b"",
    "text": b"hello",
    "head of a .pte": b"\x18\x00\x00\x00ET12",
    "a .pte of another version": b"\x18\x00\x00\x00ET99" + bytes(100),
    "a cut .pte": b"\x18\x00\x00\x00ET12eh00\x20\0\0\0" + b"\xff\0\0\0\0\0\0\0" * 3,
    "head of a zip": b"PK\x03\x04",
    "another zip": zipped("a.txt", b"b"),
    "no JSON": zipped(MODEL, b"{"),
    "other JSON": zipped(MODEL, b"[1]"),
    "deep JSON": zipped(MODEL, b"[" * 100_000),
    "no UTF-8": zipped(MODEL, b'"\xff\xfe'),
    "bad deflate": bent(zipped(MODEL, b'{"a": 1}' * 20)),
    "bad bz2": bent(zipped(MODEL, b"{}" * 20, zipfile.ZIP_BZIP2)),
    "bad lzma": bent(zipped(MODEL, b"{}" * 20, zipfile.ZIP_LZMA)),
}


@pytest.mark.parametrize("command", ["info", "build"])
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named(
    content: bytes,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("some file.bin").write_bytes(content)
    more = ["-o", "out.pte"] if command == "build" else []
    assert main([command, "some file.bin", *more]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trt-export: error: some file.bin")
    assert err.count("\n") == 1
    assert os.listdir() == ["some file.bin"]


class Batch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2


class Returns(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


UNBOUNDED = (Batch(), torch.ones(2, 3), {0: Dim("batch")})
BFLOAT16 = (Batch(), torch.ones(2, 3, dtype=torch.bfloat16), None)
NO_COMPUTATION = (Returns(), torch.ones(2, 3), None)
FIXED = (Batch(), torch.ones(2, 3), None)

COMPILE = trt_export.compile


@pytest.mark.parametrize(
    ("model", "options", "call", "option", "python"),
    [
        (UNBOUNDED, [], COMPILE, "--dynamic x.0=MIN:OPT:MAX", 'dynamic={"x.0": (min, opt, max)}'),
        (BFLOAT16, [], COMPILE, "(--builder tensorrt-rtx)", '(builder="tensorrt-rtx")'),
        (
            FIXED,
            ["--compute-capability", "8.6"],
            lambda program: COMPILE(program, compute_capabilities=["8.6"]),
            "leave --compute-capability out, or build for a GPU (--builder tensorrt-rtx)",
            'leave them out, or build for a GPU (builder="tensorrt-rtx")',
        ),
        (
            FIXED,
            ["--format", "tr01", "--data-file", "plans"],
            lambda p: trt_export.to_edge(COMPILE(p), format="tr01", data_file="plans"),
            "leave --data-file out, or ask for --format named-data",
            "leave data_file out, or ask for format='named-data'",
        ),
        (
            FIXED,
            ["--data-file", "a/b"],
            lambda p: trt_export.to_edge(COMPILE(p), data_file="a/b"),
            "--data-file: expected the name of a file",
            "error: data_file: expected the name of a file",
        ),
        (NO_COMPUTATION, [], COMPILE, "an onnxruntime engine:", "it computes nothing"),
    ],
    ids=["dynamic", "builder", "capability", "format", "data file", "nothing"],
)
def test_the_way_out_is_in_the_words_of_its_reader(
    model: tuple[torch.nn.Module, torch.Tensor, dict[int, Dim] | None],
    options: list[str],
    call: Callable[..., object],
    option: str,
    python: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, x, dims = model
    program = export(module, (x,), dynamic_shapes=None if dims is None else (dims,))
    torch.export.save(program, tmp_path / "model.pt2")
    arguments = [str(tmp_path / "model.pt2"), "-o", str(tmp_path / "out.pte"), *options]
    assert main(["build", *arguments]) in (1, 2)
    _, said = capsys.readouterr()
    assert option in said
    with pytest.raises(TrtExportError) as caught:
        call(program)
    text = f"error: {caught.value}"
    assert python in text
    if option != "an onnxruntime engine:":
        assert option not in text
        assert python not in said

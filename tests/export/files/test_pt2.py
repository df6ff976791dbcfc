"""Reading `.pt2` files without torch, and without running what is in them."""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, export

from export.programs import Calls, execute, one_call, one_output_engine, two_output_engine
from trt_export.errors import FileFormatError
from trt_export.files.pt2 import read_pt2


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt2"
    torch.export.save(one_call(), path)
    return path


def replace(path: Path, member: str, data: bytes) -> None:
    """Exchange a member of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in members if name.endswith(member))
    members[name] = data
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_program_with_an_engine(saved: Path) -> None:
    found = read_pt2(saved)
    (program,), (stored,) = found.programs, found.engines
    assert program.torch_version == torch.__version__
    assert (program.engines, program.calls) == (("engine",), 1)
    (given,) = program.inputs
    assert (given.name, given.kind, given.dtype) == ("inputs_0", "tensor", "float32")
    assert given.shape is not None
    assert given.shape[1] == 8
    assert str(given.shape[0]).startswith("s")
    assert (stored.name, stored.type) == ("engine", "trt_runtime.Engine")
    assert stored.state == one_output_engine().__getstate__()[0]


def test_several_engines_weights_and_expressions(tmp_path: Path) -> None:
    model = Calls(
        lambda self, x, n: (
            torch.cat([execute([self.linear(x)], self.first)[0], x[:, :4]]),
            n,
            None,
        ),
        first=one_output_engine(),
        second=two_output_engine(),
        linear=torch.nn.Linear(8, 8),
        unused=torch.ones(3),
    )
    program = export(model, (torch.ones(2, 8), 3), dynamic_shapes=(({0: Dim("n", max=9)}, None),))
    torch.export.save(program, tmp_path / "model.pt2")
    found = read_pt2(tmp_path / "model.pt2")
    assert found.weights_size >= 4 * (64 + 8)
    assert [stored.name for stored in found.engines] == ["first"]
    (read,) = found.programs
    assert [value.kind for value in read.inputs] == ["tensor", "int"]
    shape = read.outputs[0].shape
    assert shape is not None
    assert "Symbol" not in str(shape)
    assert "2" in str(shape[0])
    assert "aten.cat.default" in read.operators


def test_a_program_without_engines(tmp_path: Path) -> None:
    torch.export.save(export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "m.pt2")
    found = read_pt2(tmp_path / "m.pt2")
    assert found.engines == ()
    assert found.programs[0].calls == 0


def test_a_renamed_file(saved: Path) -> None:
    other = saved.rename(saved.with_name("whatever.bin"))
    assert len(read_pt2(other).engines) == 1


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"PK\x03\x04" + bytes(1000), b"hello"])
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"m\.pt2 is no readable \.pt2"):
        read_pt2(path)


def test_a_zip_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"")
    with pytest.raises(FileFormatError, match="a zip without an exported program"):
        read_pt2(path)


def test_a_file_that_is_cut_off(saved: Path) -> None:
    data = saved.read_bytes()
    for size in range(0, len(data), 301):
        saved.write_bytes(data[:size])
        with pytest.raises(FileFormatError):
            read_pt2(saved)


def test_flipped_bits_are_noticed(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    position = data.index(b"execute_engine")
    data[position] ^= 1
    saved.write_bytes(data)
    with pytest.raises(FileFormatError, match="CRC"):
        read_pt2(saved)


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"graph_module": 3}', b"\xff"])
def test_a_model_that_is_not_one(saved: Path, text: bytes) -> None:
    replace(saved, "models/model.json", text)
    with pytest.raises(FileFormatError):
        read_pt2(saved)


def pickled(value: Any) -> bytes:
    """An object file as torch writes it: a zip with data.pkl, of any pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))
    return file.getvalue()


class RunsSomething:
    def __reduce__(self) -> Any:
        return os.mkdir, ("/tmp/a-pickle-was-run",)


def test_nothing_in_the_file_is_run(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RunsSomething, "__reduce__", lambda self: (os.mkdir, ("was-run",)))
    replace(saved, "custom_obj_0", pickled(RunsSomething()))
    with pytest.raises(FileFormatError, match=r"asks for posix\.mkdir"):
        read_pt2(saved)
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("data", [pickled([1, 2]), pickled("text"), b"no zip", pickled(print)])
def test_an_object_that_is_no_engine_state(saved: Path, data: bytes) -> None:
    replace(saved, "custom_obj_0", data)
    with pytest.raises(FileFormatError):
        read_pt2(saved)

"""Reading `.pt2` files without torch, and without running what is in them."""

import base64
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, export

import trt_runtime
from export.programs import Calls, execute, one_call, one_output_engine, two_output_engine
from trt_export.errors import FileFormatError
from trt_export.files.pt2 import StoredPlan, read_pt2
from trt_export.plan import HEADER_BYTES


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
    engine = one_output_engine()
    assert stored.state == [slot or "" for slot in engine.serialize_metadata_only()]
    plan = engine.serialized_engine_tensor()
    assert stored.plan is not None
    assert stored.plan.size == plan.numel()
    assert stored.plan.start == bytes(plan.tolist())  # a small one is read whole


def test_of_a_large_plan_only_the_start_is_read(tmp_path: Path) -> None:
    plan = b"vtrt" + bytes(range(256)) * 16 * 1024
    record = {
        **trt_runtime.Engine(one_output_engine()).record(),
        "device": "cuda:0",
        "plan": {"format": "tensorrt-rtx", "size": len(plan), "sha256": "0" * 64},
    }
    engine = trt_runtime.Engine.from_plan(plan, record)
    program = export(
        Calls(lambda self, x: execute([x], self.engine)[0], engine=engine.script_object),
        (torch.ones(2, 8),),
    )
    torch.export.save(program, tmp_path / "model.pt2")
    (stored,) = read_pt2(tmp_path / "model.pt2").engines
    assert stored.plan is not None
    assert stored.plan.size == len(plan)
    assert stored.plan.start == plan[:HEADER_BYTES] != plan


GOLDEN = sorted((Path(__file__).parents[2] / "runtime" / "golden").glob("runtime-0.[1-4].0.pt2"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_an_engine_of_an_earlier_runtime_has_its_plan_in_its_record(path: Path) -> None:
    (stored,) = read_pt2(path).engines
    assert stored.plan is None
    assert len(stored.state) == 13
    assert base64.b64decode(stored.state[3])[:4] == b"ortp"


def state_of(value: Any, **beside: bytes) -> bytes:
    """An object file with a state, and what lies beside its pickle."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, item: Any) -> Any:
            return item.pid if isinstance(item, Storage) else None

    file = io.BytesIO()
    Pickler(file, protocol=2).dump(value)
    made = b"c__torch__.torch.classes.trt_runtime\nEngine\n)\x81"  # the class, called with ()
    pickled = b"\x80\x02" + made + file.getvalue()[2:-1] + b"b."  # and given the state
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in beside.items():
            archive.writestr(f"archive/data/{name.removeprefix('_')}", data)
    return out.getvalue()


class Storage:
    def __init__(self, *pid: Any) -> None:
        self.pid = pid


class Plan:
    """Pickled as a tensor."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __reduce__(self) -> Any:
        return torch._utils._rebuild_tensor_v2, self.arguments


GOOD = Storage("storage", torch.ByteStorage, "0", "cpu", 4)
STATES: dict[str, tuple[Any, str]] = {
    "empty": ((), "of version None"),
    "version 2": ((2, [], 3), r"of version 2, expected 1; .* pip install -U trt-export"),
    "True": ((True, [], 3), "of version True"),
    "no plan": ((1, []), "no plan beside its record"),
    "text": ((1, [], "x"), "no plan beside its record"),
    "offset": ((1, [], Plan(GOOD, 1, (3,), (1,), False, {})), "no plain tensor"),
    "part": ((1, [], Plan(GOOD, 0, (3,), (1,), False, {})), "no plain tensor"),
    "stride": ((1, [], Plan(GOOD, 0, (4,), (0,), False, {})), "no plain tensor"),
    "no storage": ((1, [], Plan("x", 0, (4,), (1,), False, {})), "no plain tensor"),
    "size": (
        (1, [], Plan(Storage("storage", torch.ByteStorage, "0", "cpu", 5), 0, (5,), (1,), 0, {})),
        "has 4 bytes, its state says 5",
    ),
    "missing": (
        (1, [], Plan(Storage("storage", torch.ByteStorage, "1", "cpu", 4), 0, (4,), (1,), 0, {})),
        "has 0 bytes, its state says 4",
    ),
    "floats": (
        (1, [], Plan(Storage("storage", torch.FloatStorage, "0", "cpu", 4), 0, (4,), (1,), 0, {})),
        "asks for torch.FloatStorage",
    ),
    "other": ((1, [], Storage("module", "x")), "no tensor of bytes"),
}


@pytest.mark.parametrize(("state", "message"), STATES.values(), ids=STATES.keys())
def test_a_state_that_is_none(saved: Path, state: Any, message: str) -> None:
    replace(saved, "custom_obj_0", state_of(state, _0=b"vtrt"))
    with pytest.raises(FileFormatError, match=message):
        read_pt2(saved)


def test_a_good_state_made_so_is_read(saved: Path) -> None:
    state = (1, ["slots"], Plan(GOOD, 0, (4,), (1,), False, {}))
    replace(saved, "custom_obj_0", state_of(state, _0=b"vtrt"))
    (stored,) = read_pt2(saved).engines
    assert (stored.state, stored.plan) == (["slots"], StoredPlan(4, b"vtrt"))


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

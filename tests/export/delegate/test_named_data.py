"""The default format: what is in payload and named data, and that a plan is never copied on its way there."""

import copy
import gc
import hashlib
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeProgramManager
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary
from torch.export import Dim, ExportedProgram, export

import trt_export
import trt_runtime
from export.programs import (
    Calls,
    execute,
    one_call,
    one_output_engine,
    plan_of,
    rtx_plan,
    two_output_engine,
)
from trt_export.delegate import plan_buffer
from trt_export.errors import LoweringError
from trt_export.files.pte import read_pte
from trt_export.passes import plan_store

X = torch.ones(2, 8)
PLAN = rtx_plan(5000, seed=3)
KEY = f"trt-plan-sha256-{hashlib.sha256(PLAN).hexdigest()}"


def to_edge(programs: Any, **options: Any) -> EdgeProgramManager:
    return trt_export.to_edge(programs, format="named-data", **options)


def lowered(programs: Any) -> PTEFile:
    return deserialize_pte_binary(to_edge(programs).to_executorch().buffer)


def payloads(pte: PTEFile) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Header and metadata of each delegate, parsed here without the code under test."""
    found = []
    for plan in pte.program.execution_plan:
        for delegate in plan.delegates:
            assert delegate.id == "TrtRuntimeBackend"
            data = pte.program.backend_delegate_data[delegate.processed.index].data
            header = struct.unpack_from("<4sHHIIQ32s", data)
            found.append((header, json.loads(data[header[3] :])))
    return found


def named_data(pte: PTEFile) -> dict[str, bytes]:
    stored = pte.named_data
    assert stored is not None
    return {key: stored.buffers[entry.buffer_index] for key, entry in stored.pte_data.items()}


def buffers_of(manager: EdgeProgramManager) -> list[Any]:
    return list(manager._named_data_store.buffers)


def address(data: Any) -> int:
    return int(torch.frombuffer(data, dtype=torch.uint8).data_ptr())


def twice(engine: torch.ScriptObject, other: torch.ScriptObject | None = None) -> ExportedProgram:
    model = Calls(
        lambda self, x: execute([x], self.first)[0] + execute([x * 2], self.second)[0],
        first=engine,
        second=engine if other is None else other,
    )
    return export(model, (X,))


def test_the_payload_has_the_record_and_the_named_data_the_plan() -> None:
    held = one_output_engine(PLAN, name="mine")
    pte = lowered(one_call(held))
    (((magic, version, flags, header_size, metadata_size, plan_size, digest), metadata),) = (
        payloads(pte)
    )
    assert (magic, version, flags, header_size) == (b"TRTN", 1, 0, 64)
    assert metadata_size > 0
    assert (plan_size, digest) == (len(PLAN), hashlib.sha256(PLAN).digest())
    assert metadata["inputs"] == ["in_0"]
    assert metadata["outputs"] == ["out_0"]
    info = trt_runtime.Engine.from_script_object(held).info
    assert trt_runtime.EngineInfo.from_mapping(metadata["record"]) == info
    assert metadata["record"]["provenance"] == {"builder": "by hand"}
    assert named_data(pte) == {KEY: PLAN}


def test_the_names_have_the_order_of_the_delegates_arguments() -> None:
    model = Calls(
        lambda self, x, y: execute([y * 2, x], self.engine)[::-1], engine=two_output_engine()
    )
    ((_, metadata),) = payloads(lowered(export(model, (X, X))))
    for side in ("inputs", "outputs"):
        assert sorted(metadata[side]) == sorted(b["name"] for b in metadata["record"][side])


def test_plans_lie_where_their_weights_can_be_read_in_place(tmp_path: Path) -> None:
    """At multiples of 64, as an onnxruntime plan has its weights, though the plan before has another size."""
    plans = [rtx_plan(size, seed=size) for size in (5000, 1001, 4097)]
    methods = {f"m{len(plan)}": one_call(one_output_engine(plan)) for plan in plans}
    path = tmp_path / "model.pte"
    trt_export.save(to_edge(methods), path)
    data = path.read_bytes()
    assert [data.index(plan) % 64 for plan in plans] == [0, 0, 0]


def test_a_plan_stays_while_any_lowering_of_it_does() -> None:
    tensors = [torch.frombuffer(bytearray(PLAN), dtype=torch.uint8) for _ in range(2)]
    digest = hashlib.sha256(PLAN).hexdigest()
    first = plan_store.store(tensors[0], digest)
    second = plan_store.store(tensors[1], digest)
    del second
    gc.collect()
    assert plan_store.find(KEY) is first


@pytest.mark.parametrize("way", ["two calls", "two engines", "two methods"])
def test_equal_plans_are_stored_once(way: str) -> None:
    held = one_output_engine(PLAN)
    programs: Any = {
        "two calls": twice(held),
        "two engines": twice(held, one_output_engine(PLAN, name="another")),
        "two methods": {"a": one_call(held), "b": one_call(one_output_engine(PLAN))},
    }[way]
    pte = lowered(programs)
    assert len(payloads(pte)) == 2
    assert named_data(pte) == {KEY: PLAN}


def test_plans_of_one_size_and_beginning_are_two() -> None:
    """ExecuTorch takes length and first bytes for a fingerprint."""
    other = PLAN[:-1] + bytes([PLAN[-1] ^ 1])
    pte = lowered(twice(one_output_engine(PLAN), one_output_engine(other)))
    assert sorted(named_data(pte).values()) == sorted([PLAN, other])


def test_a_plan_lies_aligned_in_the_file(tmp_path: Path) -> None:
    (path,) = trt_export.save(to_edge(one_call(one_output_engine(PLAN))), tmp_path / "model.pte")
    data = path.read_bytes()
    pte = read_pte(memoryview(data))
    (entry,) = pte.named_data
    segment = pte.segments[entry.segment]
    assert segment.offset % 64 == 0
    assert data[segment.offset : segment.offset + segment.size] == PLAN


def test_the_way_of_a_plan_to_the_file_is_one_write_of_its_own_memory() -> None:
    engine = one_output_engine(rtx_plan(3 * 2**18 + 5))
    program = one_call(engine)
    before = trt_runtime.stats()
    manager = to_edge({"a": program, "b": program})
    emitted = manager.to_executorch()
    written: list[Any] = []

    class File(io.RawIOBase):
        def write(self, data: Any) -> int:
            written.append(data)
            return len(data)

    emitted.write_to_file(File())
    assert trt_runtime.stats() == before  # nothing serialized, encoded, copied or hashed
    own = engine.serialized_engine_tensor().data_ptr()
    pieces = [piece for piece in written if isinstance(piece, memoryview)]
    assert [len(piece) for piece in pieces] == [2**18, 2**18, 2**18, 5]
    assert [address(piece) for piece in pieces] == [own + k * 2**18 for k in range(4)]


def test_copies_of_programs_do_not_copy_their_plans() -> None:
    engine = one_output_engine(PLAN)
    own = engine.serialized_engine_tensor().data_ptr()
    before = trt_runtime.stats()
    manager = to_edge({"a": one_call(engine)}, transform_passes={"a": []})
    for copied in (manager, copy.deepcopy(manager)):
        (buffer,) = buffers_of(copied)
        assert [address(piece) for piece in buffer._buffers] == [own]
    assert trt_runtime.stats() == before


def test_an_executorch_that_takes_only_bytes_gets_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = one_call(one_output_engine(PLAN))
    (expected,) = trt_export.save(to_edge(program), tmp_path / "views.pte")
    monkeypatch.setattr(plan_buffer.PlanBuffer, "__getitem__", lambda self, index: [])
    plan_buffer._takes_views.cache_clear()
    try:
        assert not plan_buffer._takes_views()
        manager = to_edge(program)
        assert buffers_of(manager) == [PLAN]
        (found,) = trt_export.save(manager, tmp_path / "bytes.pte")
    finally:
        plan_buffer._takes_views.cache_clear()
    assert found.read_bytes() == expected.read_bytes()


def test_this_executorch_takes_views() -> None:
    assert plan_buffer._takes_views()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_nothing_of_a_lowering_stays_behind(dynamic: bool, tmp_path: Path) -> None:
    engine = one_output_engine(rtx_plan(700, seed=9))
    model = Calls(lambda self, x: execute([torch.relu(x)], self.engine)[0], engine=engine)
    batch = ({0: Dim("batch", min=1, max=16)},) if dynamic else None
    manager = to_edge(export(model, (X,), dynamic_shapes=(batch,) if dynamic else None))
    key = f"trt-plan-sha256-{hashlib.sha256(plan_of(engine)).hexdigest()}"
    assert plan_store.find(key)
    trt_export.save(manager, tmp_path / "model.pte")
    del manager
    export(torch.nn.ReLU(), (X,))  # torch keeps the graph that it traced last
    gc.collect()
    with pytest.raises(LoweringError):
        plan_store.find(key)


def test_a_lowering_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = one_output_engine(rtx_plan(800, seed=9))
    monkeypatch.setattr("trt_export.edge.to_edge_transform_and_lower", failing)
    with pytest.raises(LoweringError, match="no such pass"):
        to_edge(one_call(engine))
    gc.collect()
    key = f"trt-plan-sha256-{hashlib.sha256(plan_of(engine)).hexdigest()}"
    with pytest.raises(LoweringError):
        plan_store.find(key)


def failing(*arguments: object, **options: object) -> None:
    raise ValueError("no such pass")


def test_a_data_file_has_the_plans_and_the_program_has_none(tmp_path: Path) -> None:
    program = one_call(one_output_engine(PLAN))
    manager = to_edge({"a": program, "b": program}, data_file="plans")
    files = trt_export.save(manager, tmp_path / "model.pte")
    assert files == (tmp_path / "model.pte", tmp_path / "plans.ptd")
    assert PLAN not in files[0].read_bytes()
    assert files[1].read_bytes().count(PLAN) == 1


def test_of_program_and_data_file_both_are_written_or_none(tmp_path: Path) -> None:
    manager = to_edge(one_call(one_output_engine(PLAN)), data_file="plans")
    (tmp_path / "model.pte").write_text("old")
    (tmp_path / "plans.ptd").mkdir()
    with pytest.raises(trt_export.TrtExportError, match=r"plans\.ptd"):
        trt_export.save(manager, tmp_path / "model.pte")
    assert (tmp_path / "model.pte").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pte", "plans.ptd"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "../up", "a\nb", "\0"])
def test_a_data_file_has_the_name_of_a_file(name: str) -> None:
    with pytest.raises(LoweringError, match="data_file: expected the name of a file"):
        to_edge(one_call(), data_file=name)


def test_inline_plans_have_no_data_file() -> None:
    with pytest.raises(
        LoweringError, match="expected a plan in named data, found one that goes into"
    ):
        trt_export.to_edge(one_call(), format="tr01", data_file="plans")


def test_a_format_that_there_is_none() -> None:
    with pytest.raises(LoweringError, match="expected the format named-data or tr01, found 'tr03'"):
        trt_export.to_edge(one_call(), format="tr03")  # type: ignore[arg-type]

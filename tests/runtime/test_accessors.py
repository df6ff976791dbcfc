"""The two native accessors: the record without the plan, and the plan without a copy."""

from __future__ import annotations

import copy
import gc
import io
import itertools
import mmap
import sys
import threading

import numpy as np
import pytest
import torch

import trt_runtime
from trt_runtime import Engine, PlanError, RecordError, _native
from trt_runtime.info import EngineInfo
from trt_runtime.record import fields_from_info

from .building import RELU_PLAN, Calls, relu_engine, relu_record

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

ENGINE_SLOT = 3


def own_plan() -> bytes:
    """A plan that nothing else refers to: some of these tests write to it."""
    return bytes(bytearray(RELU_PLAN))


def record_for(size: int, plan_format: str = "tensorrt-rtx") -> dict:
    """The record of a plan whose bytes need not be read for it."""
    return relu_record(
        device="cuda:0", plan={"format": plan_format, "size": size, "sha256": "0" * 64}
    )


def test_the_record_is_the_full_one_but_for_the_plan() -> None:
    engine = relu_engine()
    metadata, full = engine.script_object.serialize_metadata_only(), engine.serialize()
    assert metadata[ENGINE_SLOT] is None
    full[ENGINE_SLOT] = None
    assert metadata == full
    assert engine.serialize_metadata_only() == metadata


def test_neither_accessor_serializes_copies_or_loads(counted) -> None:
    engine = relu_engine()
    with counted() as grown:
        engine.script_object.serialize_metadata_only()
        engine.script_object.serialized_engine_tensor()
        engine.script_object.serialized_engine_tensor().sum()
        _ = engine.plan_tensor
    assert grown == {}


def test_a_record_without_its_plan_is_no_engine() -> None:
    with pytest.raises(RecordError, match=r"expected the plan in the engine slot, found None"):
        Engine.deserialize(relu_engine().serialize_metadata_only())


def test_the_tensor_is_the_plan_itself() -> None:
    plan = own_plan()
    engine = Engine.from_plan(plan, relu_record())
    tensor = engine.script_object.serialized_engine_tensor()
    assert (tensor.dtype, tensor.device.type, tensor.shape) == (torch.uint8, "cpu", (len(plan),))
    assert tensor.is_contiguous()
    assert not tensor.requires_grad
    assert bytes(tensor.tolist()) == plan
    address = np.frombuffer(plan, np.uint8).ctypes.data
    assert tensor.data_ptr() == engine.plan_tensor.data_ptr() == address


def test_every_byte_passes_as_it_is() -> None:
    """Also those that are no text in any encoding, in either way of reading a plan."""
    plan = b"vtrt" + bytes(range(256)) + b"\xff\xfe\x00\xc3\x28"
    engine = Engine.from_plan(plan, relu_record(device="cuda:0"))
    assert bytes(engine.plan_tensor.tolist()) == plan
    assert bytes(Engine.deserialize(engine.serialize()).plan) == plan
    assert engine.serialize_metadata_only()[ENGINE_SLOT] is None


def test_text_beyond_ascii_passes_as_it_is() -> None:
    engine = relu_engine(name="Grüße, 世界", provenance={"builder": "é\u0000"})
    slots = engine.script_object.serialize_metadata_only()
    assert slots[1] == "Grüße, 世界"
    assert engine.info.provenance == {"builder": "é\u0000"}


def test_an_empty_plan_is_no_plan() -> None:
    with pytest.raises(PlanError, match=r"found '' in 0 bytes"):
        Engine.from_plan(b"", relu_record())
    slots = relu_engine().serialize()
    slots[ENGINE_SLOT] = ""
    with pytest.raises(PlanError, match=r"found '' in 0 bytes"):
        Engine.deserialize(slots)


def test_the_smallest_plan_has_a_tensor() -> None:
    engine = Engine.from_plan(b"vtrt", relu_record(device="cuda:0"))
    assert engine.plan_tensor.tolist() == list(b"vtrt")


def test_a_plan_of_more_than_two_gigabytes(counted) -> None:
    """Memory that is only promised: what nobody writes to takes none, and no accessor reads it."""
    size = 3 * 2**30 + 5
    memory = mmap.mmap(-1, size)
    memory[:4], memory[size - 3 :] = b"vtrt", b"end"
    info = EngineInfo.from_mapping(record_for(size))
    with counted() as grown:
        engine = Engine(_native.make_engine(_native.share_plan(memory), fields_from_info(info)))
        tensor = engine.plan_tensor
        metadata = engine.serialize_metadata_only()
    assert grown == {}
    assert tensor.shape == (size,)
    assert bytes(tensor[2**31 + 2**30 + 2 :].tolist()) == b"end"
    assert metadata[ENGINE_SLOT] is None
    assert f'"size": {size}' in metadata[7]
    with pytest.raises(BufferError):
        memory.close()
    del engine, tensor
    memory.close()


HOLDERS = {
    "engine": lambda engine: engine,
    "program": lambda engine: torch.export.export(Calls(engine), (torch.ones(4, 8),)),
    "tensor": lambda engine: engine.plan_tensor,
    "slice": lambda engine: engine.plan_tensor[7:9],
    "view of another shape": lambda engine: engine.plan_tensor[:8].view(2, 4),
    "storage": lambda engine: engine.plan_tensor.untyped_storage(),
    "array": lambda engine: engine.plan_tensor.numpy(),
    "memoryview": lambda engine: engine.plan,
}


@pytest.mark.parametrize("last", HOLDERS)
def test_the_plan_lives_as_long_as_the_last_that_holds_it(last) -> None:
    plan = own_plan()
    references = sys.getrefcount(plan)
    engine = Engine.from_plan(plan, relu_record())
    held = {name: hold(engine) for name, hold in HOLDERS.items()}
    del engine
    for name in [name for name in HOLDERS if name != last] + [last]:
        assert sys.getrefcount(plan) == references + 1, name
        del held[name]
        gc.collect()
    assert sys.getrefcount(plan) == references


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_the_plan_is_let_go_once_in_whichever_order(order) -> None:
    plan = own_plan()
    references = sys.getrefcount(plan)
    engine = Engine.from_plan(plan, relu_record())
    tensor = engine.plan_tensor
    held = {0: engine, 1: tensor, 2: tensor[5:], 3: engine.plan_tensor}
    del engine, tensor
    for index in order:
        assert sys.getrefcount(plan) == references + 1
        del held[index]
    assert sys.getrefcount(plan) == references


def test_tensors_may_die_in_any_thread() -> None:
    plan = own_plan()
    references = sys.getrefcount(plan)
    for _ in range(20):
        engine = Engine.from_plan(plan, relu_record())
        tensors = [engine.plan_tensor for _ in range(8)]
        del engine
        threads = [threading.Thread(target=tensors.pop) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sys.getrefcount(plan) == references


def test_the_tensor_cannot_be_resized() -> None:
    tensor = relu_engine().plan_tensor
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.resize_(len(RELU_PLAN) + 1)
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.untyped_storage().resize_(len(RELU_PLAN) * 2)


def test_a_copy_of_the_tensor_is_free_of_the_engine() -> None:
    plan = own_plan()
    engine = Engine.from_plan(plan, relu_record())
    for other in (engine.plan_tensor.clone(), copy.deepcopy(engine.plan_tensor)):
        other.zero_()
    assert bytes(engine.plan) == RELU_PLAN
    assert torch.equal(engine(torch.ones(1, 8))[0], torch.ones(1, 8))


# Torch has no read-only tensors. What follows is why a contract is enough: bytes that someone wrote to are not loaded.


def written(offset: int) -> Engine:
    engine = Engine.from_plan(own_plan(), relu_record())
    engine.plan_tensor[offset] ^= 1
    return engine


@pytest.mark.parametrize("offset", [0, 5, 64, 150, len(RELU_PLAN) - 1])
def test_a_plan_that_was_written_to_does_not_run(offset) -> None:
    with pytest.raises(PlanError, match=r"sha256|payload"):
        written(offset)(torch.ones(1, 8))


def test_a_plan_that_was_written_to_is_found_behind_a_file_too() -> None:
    file = io.BytesIO()
    torch.export.save(torch.export.export(Calls(written(-1)), (torch.ones(4, 8),)), file)
    file.seek(0)
    module = torch.export.load(file).module()
    with pytest.raises(PlanError, match=r"sha256"):
        module(torch.ones(4, 8))


def test_an_engine_that_is_loaded_reads_no_more_of_the_plan_than_its_large_weights() -> None:
    engine = Engine.from_plan(own_plan(), relu_record())
    x = torch.randn(3, 8)
    (before,) = engine(x)
    engine.plan_tensor.zero_()
    assert torch.equal(engine(x)[0], before)
    assert engine.info == relu_engine().info
    with pytest.raises(PlanError):
        Engine.deserialize(engine.serialize())


def test_the_accessors_may_be_called_while_tracing(counted) -> None:
    class Reads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = relu_engine().script_object

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert self.engine.serialize_metadata_only()[ENGINE_SLOT] is None
            assert self.engine.serialized_engine_tensor().numel() == len(RELU_PLAN)
            return torch.ops.trt_runtime.execute_engine([x], self.engine)[0]

    model = Reads()
    with counted() as grown:
        torch.export.export(model, (torch.ones(4, 8),)).run_decompositions()
    assert grown == {}


def test_the_capabilities_name_them() -> None:
    assert {"metadata-only", "engine-tensor"} <= trt_runtime.capabilities()

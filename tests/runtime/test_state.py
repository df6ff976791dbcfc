"""What an engine is pickled as: the plan as it is for torch and for copies, the 13 strings for all others."""

from __future__ import annotations

import base64
import copy
import copyreg
import gc
import io
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from torch.export import ExportedProgram

import trt_runtime
from trt_runtime import Engine, _native
from trt_runtime.state import takes_tensors

from .building import RELU_PLAN, Calls, relu_engine, relu_record
from .states import CLASS, address, called_from, saved

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


def exported(engine: Engine) -> ExportedProgram:
    return torch.export.export(Calls(engine), (torch.ones(4, 8),))


def test_steps_of_a_program_cost_nothing(counted) -> None:
    program, file = exported(relu_engine()), io.BytesIO()
    with counted() as grown:
        copied = copy.deepcopy(program.run_decompositions())
        torch.export.save(copied, file)
        file.seek(0)
        loaded = torch.export.load(file)
        again = copy.deepcopy(loaded)
    assert grown == {}
    for each in (copied, loaded, again):
        x = torch.randn(4, 8)
        assert torch.equal(each.module()(x), (x + 1).relu() * 2)


def test_a_loaded_engine_holds_the_memory_that_torch_read(counted) -> None:
    data = saved(relu_engine())
    assert RELU_PLAN in data
    with counted() as grown:
        engine = Engine(torch._C._pickle_load_obj(data))
        del data
        gc.collect()
        assert bytes(engine.plan) == RELU_PLAN
    assert grown == {}


def test_the_file_holds_the_plan_once_and_as_it_is() -> None:
    plan = b"vtrt" + bytes(range(256)) * 400
    file = io.BytesIO()
    torch.export.save(exported(Engine.from_plan(plan, relu_record(device="cuda:0"))), file)
    assert file.getvalue().count(plan) == 1
    assert base64.b64encode(plan)[:1000] not in file.getvalue()


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.deepcopy,
        lambda engine: Engine(copy.deepcopy(engine.script_object)),
        lambda engine: Engine(copy.deepcopy(exported(engine)).constants["engine"]),
        lambda engine: copy.deepcopy([engine, engine])[1],
        lambda engine: copy.deepcopy(copy.deepcopy(engine)),
    ],
    ids=["engine", "object", "program", "list", "twice"],
)
def test_a_deepcopy_is_another_engine_over_the_same_plan(duplicate, counted) -> None:
    engine = relu_engine(future=["é"])
    digest = engine.plan_sha256
    with counted() as grown:
        again = duplicate(engine)
        assert again.plan_sha256 == digest
    assert grown == {}
    assert again.script_object != engine.script_object
    assert address(again) == address(engine)
    assert again.serialize() == engine.serialize()
    with counted() as grown:
        engine(torch.ones(1, 8))
        again(torch.ones(1, 8))
    assert grown == {"executor_loads": 2, "plan_hashes": 1}  # of the header's sum; no copy


def test_copies_of_copies_hold_one_plan_and_let_it_go() -> None:
    plan = bytes(bytearray(RELU_PLAN))
    references = sys.getrefcount(plan)
    engine = Engine.from_plan(plan, relu_record())
    for _ in range(50):
        engine = copy.deepcopy(engine)
    assert sys.getrefcount(plan) == references + 1
    del engine
    gc.collect()
    assert sys.getrefcount(plan) == references


@pytest.mark.parametrize("what", ["engine", "object"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_encodes_nothing(what, protocol, counted) -> None:
    engine = relu_engine(future=[None])
    pickled = engine if what == "engine" else engine.script_object
    copies = {"plan_copies": 1} if protocol in (3, 4) else {}
    with counted() as grown:
        data = pickle.dumps(pickled, protocol=protocol)
    assert grown == copies
    found = pickle.loads(data)
    again = found if what == "engine" else Engine(found)
    assert again.serialize() == engine.serialize()
    assert torch.equal(again(torch.ones(1, 8))[0], torch.ones(1, 8))


def test_pickling_out_of_band_leaves_the_plan_where_it_is(counted) -> None:
    engine, buffers = relu_engine(), []
    with counted() as grown:
        data = pickle.dumps(engine, protocol=5, buffer_callback=buffers.append)
        again = pickle.loads(data, buffers=buffers)
    assert grown == {}
    assert len(data) < len(pickle.dumps(engine.serialize_metadata_only())) + 400
    assert address(again) == address(engine)
    given = bytearray(buffers[0].raw())
    changed = pickle.loads(data, buffers=[given])
    given[:] = bytes(len(given))
    assert bytes(changed.plan) == RELU_PLAN


def test_torch_save_writes_the_plan_as_it_is(counted) -> None:
    engine, file = relu_engine(), io.BytesIO()
    with counted() as grown:
        torch.save({"engine": engine.script_object}, file)
        file.seek(0)
        again = torch.load(file, weights_only=False)["engine"]
    assert grown == {}
    assert RELU_PLAN in file.getvalue()
    assert Engine(again).serialize() == engine.serialize()


def test_one_engine_pickled_twice_is_one_engine() -> None:
    engine = relu_engine().script_object
    first, second = pickle.loads(pickle.dumps([engine, engine]))
    assert first == second


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, of its quantized tensors
def test_other_objects_of_torch_are_pickled_as_before() -> None:
    packed = torch.ops.quantized.conv2d_prepack(
        torch.quantize_per_tensor(torch.ones(1, 1, 1, 1), 1.0, 0, torch.qint8),
        *(None, [1, 1], [0, 0], [1, 1], 1),
    )
    reduced = copyreg.dispatch_table[torch.ScriptObject](packed)
    assert reduced[:2] == packed.__reduce_ex__(2)[:2]
    again = pickle.loads(pickle.dumps(packed))
    assert torch.equal(again.unpack()[0].dequantize(), packed.unpack()[0].dequantize())


def test_a_reducer_that_was_there_goes_on_serving_others() -> None:
    code = (
        "import copyreg, pickle, torch\n"
        "copyreg.pickle(torch.ScriptObject, lambda other: (str, ('was there',)))\n"
        "import sys, trt_runtime\n"
        "for name in [name for name in sys.modules if name.startswith('trt_runtime')]:\n"
        "    del sys.modules[name]\n"
        "import trt_runtime\n"
        "from runtime.building import relu_engine\n"
        "generator = torch.classes.profiling._ScriptProfile()\n"
        "print(pickle.loads(pickle.dumps(generator)))\n"
        "print(type(pickle.loads(pickle.dumps(relu_engine().script_object))).__name__)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.stderr) == ("was there\nScriptObject\n", "")


# Who gets which form.


def test_code_that_is_not_torch_gets_the_strings(counted) -> None:
    """As trt-export 0.1.0 does, which reads engines by this."""
    engine = relu_engine()
    with counted() as grown:
        state, name = engine.script_object.__getstate__()
    assert grown == {"serializations": 1, "base64_encodes": 1}
    assert (state, name) == (engine.serialize(), CLASS)
    for module in ("trt_export.engines.read", "torchvision", "torch_tensorrt.x", "", "__main__"):
        found = called_from(module, "argument.__getstate__()", engine.script_object)
        assert found == (state, name), module
        assert called_from(module, "getattr(argument, '__getstate__')()", engine.script_object)


@pytest.mark.parametrize("module", ["torch", "torch.export.pt2_archive._package", "copy"])
def test_torch_and_copies_get_the_plan(module, counted) -> None:
    engine = relu_engine()
    with counted() as grown:
        state, _ = called_from(module, "argument.__getstate__()", engine.script_object)
    assert grown == {}
    version, slots, plan = state
    assert version == 1
    assert slots == [slot or "" for slot in engine.serialize_metadata_only()]
    assert plan.data_ptr() == address(engine)


def test_a_module_without_a_name_gets_the_strings() -> None:
    assert isinstance(
        called_from(3, "argument.__getstate__()", relu_engine().script_object)[0], list
    )
    function = types.FunctionType((lambda x: x.__getstate__()).__code__, {})
    assert isinstance(function(relu_engine().script_object)[0], list)


def test_where_torch_is_not_known_files_are_as_before(counted) -> None:
    """Had torch moved the code that saves, or had nobody told the library whom to trust."""
    engine = relu_engine()
    _native.register_takes_tensors(lambda: False)
    try:
        with counted() as grown:
            data = saved(engine)
            copied = copy.deepcopy(engine.script_object)
    finally:
        _native.register_takes_tensors(takes_tensors)
    assert grown["serializations"] == grown["base64_encodes"] == 2
    for again in (torch._C._pickle_load_obj(data), copied):
        assert Engine(again).serialize() == engine.serialize()


def test_one_engine_under_two_names_is_saved_twice_and_loads() -> None:
    """As torch does with every object; here so that a torch that does better is noticed."""

    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            engine = relu_engine()
            self.first, self.second = Calls(engine), Calls(engine)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    program, file = torch.export.export(Twice(), (torch.ones(4, 8),)), io.BytesIO()
    torch.export.save(program, file)
    assert file.getvalue().count(RELU_PLAN) == len(program.constants)
    file.seek(0)
    x = torch.randn(4, 8)
    assert torch.equal(torch.export.load(file).module()(x), program.module()(x))


def test_the_names_that_pickles_use_stay() -> None:
    assert callable(trt_runtime.state.restore_engine)
    assert callable(trt_runtime.state.restore_plan)
    assert callable(Engine.from_script_object)

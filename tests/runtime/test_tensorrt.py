"""The TensorRT executor: its logic on a double, its names on the real module, its errors without a GPU."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import tensorrt_rtx
import torch

from trt_runtime import Engine, ExecutionError, ExecutorUnavailableError, PlanError, _native
from trt_runtime.executors.tensorrt import TensorRTExecutor

from . import tensorrt_double
from .building import Calls, relu_record
from .tensorrt_double import DataType, Double, TensorIOMode, TensorLocation

MAGICS = {"tensorrt": b"ftrt", "tensorrt_rtx": b"vtrt"}


@pytest.fixture(params=MAGICS)
def module(request) -> str:
    return request.param


@pytest.fixture
def double(monkeypatch, module) -> Double:
    double = Double()
    tensorrt_double.install(monkeypatch, double, module)
    return double


@pytest.fixture
def load(double, module):
    def make(**more) -> TensorRTExecutor:
        plan = MAGICS[module] + bytes(60)
        engine = Engine.from_plan(plan, relu_record(device="cuda:0", **more))
        return TensorRTExecutor(engine.info, _native.engine_plan(engine.script_object))

    return make


def test_runs_on_the_current_stream_with_torchs_memory(double, load, module) -> None:
    executor = load()
    x, y = torch.ones(3, 8), torch.empty(3, 8)
    executor.run([x], [y])
    assert double.calls == [
        ("deserialize_cuda_engine", MAGICS[module], 64),
        ("create_execution_context", "STATIC"),
        ("wait_event",),
        ("set_input_shape", "in_0", (3, 8)),
        ("set_tensor_address", "in_0", x.data_ptr()),
        ("set_tensor_address", "out_0", y.data_ptr()),
        ("execute_async_v3", 4711),
        ("record_event",),
    ]


def test_empty_tensors_have_an_address(double, load) -> None:
    load().run([torch.empty(0, 8)], [torch.empty(0, 8)])
    addresses = [call[2] for call in double.calls if call[0] == "set_tensor_address"]
    assert len(addresses) == 2
    assert all(addresses)


def test_dynamic_allocation_gives_the_context_memory_for_each_call(double, load) -> None:
    executor = load(resource_allocation_strategy="dynamic")
    executor.run([torch.ones(3, 8)], [torch.empty(3, 8)])
    names = [call[0] for call in double.calls]
    assert ("create_execution_context", "USER_MANAGED") in double.calls
    assert ("set_device_memory", 1000) in double.calls
    assert names.index("set_input_shape") < names.index("update_device_memory_size_for_shapes")
    assert names.index("set_device_memory") < names.index("execute_async_v3")


@pytest.mark.parametrize("call", ["set_input_shape", "set_tensor_address", "execute_async_v3"])
def test_a_call_that_fails_is_an_execution_error_with_tensorrts_words(double, load, call) -> None:
    executor = load()
    double.failing = call
    with pytest.raises(
        ExecutionError, match=f"expected TensorRT's {call} to succeed .*{call} went wrong"
    ):
        executor.run([torch.ones(3, 8)], [torch.empty(3, 8)])


def test_an_output_of_another_shape_is_refused_before_it_is_written(double, load) -> None:
    executor = load()
    double.output_shape = (4, 8)
    with pytest.raises(
        ExecutionError, match=r"'out_0': expected the shape \[3, 8\] .*, found \[4, 8\]"
    ):
        executor.run([torch.ones(3, 8)], [torch.empty(3, 8)])
    assert "execute_async_v3" not in [call[0] for call in double.calls]


def test_a_refused_plan_names_the_target_the_gpu_and_tensorrts_words(double, load) -> None:
    double.refuses = True
    with pytest.raises(
        ExecutorUnavailableError,
        match=r"expected the GPU model .*, found NVIDIA H200 \(SM90\) .* refused the plan: wrong GPU; build",
    ):
        load()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"names": {"in_0": TensorIOMode.INPUT, "output_0": TensorIOMode.OUTPUT}},
            PlanError,
            r"expected the output bindings \['out_0'\] of the record, found \['output_0'\] in the plan",
        ),
        (
            {"names": {"in_0": TensorIOMode.OUTPUT, "out_0": TensorIOMode.OUTPUT}},
            PlanError,
            r"expected the input bindings \['in_0'\] of the record, found \[\]",
        ),
        ({"dtype": DataType.HALF}, PlanError, "'in_0': expected the dtype float32 .*, found HALF"),
        ({"rank": 1}, PlanError, "'in_0': expected the rank 2 of the record, found 1"),
        ({"location": TensorLocation.HOST}, ExecutorUnavailableError, "a shape tensor"),
    ],
)
def test_bindings_are_compared_with_the_record(double, load, change, error, message) -> None:
    vars(double).update(change)
    with pytest.raises(error, match=message):
        load()


def test_every_name_that_is_used_exists_in_the_real_module(double, load) -> None:
    load(resource_allocation_strategy="dynamic").run([torch.ones(3, 8)], [torch.empty(3, 8)])
    used = object.__getattribute__(double, "_used")
    classes = {"Runtime", "ICudaEngine", "IExecutionContext"}
    names = {(owner, name) for owner, name in used if owner in classes}
    assert {owner for owner, _ in names} == classes
    assert len(names) > 12
    for owner, name in names:
        assert hasattr(getattr(tensorrt_rtx, owner), name), f"{owner}.{name}"
    for enum in ("DataType", "TensorIOMode", "TensorLocation"):
        for member in getattr(tensorrt_double, enum):
            assert hasattr(getattr(tensorrt_rtx, enum), member.name), member
    for member in ("STATIC", "USER_MANAGED"):
        assert hasattr(tensorrt_rtx.ExecutionContextAllocationStrategy, member)
    for member in ("ERROR", "INTERNAL_ERROR"):
        assert hasattr(tensorrt_rtx.ILogger.Severity, member)


def test_the_real_module_takes_our_logger() -> None:
    from trt_runtime.executors.tensorrt import _make_logger

    log = _make_logger(tensorrt_rtx)
    assert (
        tensorrt_rtx.Runtime(log).deserialize_cuda_engine(memoryview(b"vtrt" + bytes(60))) is None
    )
    assert log.last != "no message"


@pytest.fixture(scope="module")
def rtx_plan(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("rtx") / "relu.plan"
    script = Path(__file__).with_name("rtx_plan.py")
    subprocess.run([sys.executable, "-I", str(script), str(path)], check=True)
    return path.read_bytes()


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's own
class TestWithoutAGpu:
    @pytest.fixture(autouse=True)
    def no_gpu(self, monkeypatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def test_a_real_plan_is_kept_saved_and_traced(self, rtx_plan) -> None:
        engine = Engine.from_plan(rtx_plan, relu_record(device="cuda:0"))
        assert engine.info.plan.format == "tensorrt-rtx"
        assert bytes(Engine.deserialize(engine.serialize()).plan) == rtx_plan
        with torch._subclasses.FakeTensorMode():
            # The device of the record is a GPU: tracing needs none.
            x = torch.empty(4, 8, device="cuda")
            program = torch.export.export(Calls(engine), (x,))
        program.example_inputs = None  # torch cannot save the fake ones
        file = io.BytesIO()
        torch.export.save(program.run_decompositions({}), file)
        file.seek(0)
        constants = torch.export.load(file).constants.values()
        assert bytes(Engine.from_script_object(next(iter(constants))).plan) == rtx_plan

    def test_running_it_is_one_clear_error(self, rtx_plan) -> None:
        engine = Engine.from_plan(rtx_plan, relu_record(device="cuda:0"))
        with pytest.raises(
            ExecutorUnavailableError,
            match=r"expected a GPU with compute capability SM86 or SM120 as cuda:0, found 0 CUDA devices",
        ):
            engine(torch.ones(4, 8))

    @pytest.mark.parametrize("magic", MAGICS.values())
    def test_a_header_that_is_not_understood_names_no_target(self, magic) -> None:
        engine = Engine.from_plan(magic + b"\xff" * 60, relu_record(device="cuda:1"))
        with pytest.raises(
            ExecutorUnavailableError, match=r"\(the plan does not say which\) as cuda:1"
        ):
            engine(torch.ones(4, 8))


def test_an_engine_for_the_cpu_is_refused(module) -> None:
    engine = Engine.from_plan(MAGICS[module] + bytes(60), relu_record())
    with pytest.raises(
        ExecutorUnavailableError, match=r"expected a CUDA device for a .* found .* cpu"
    ):
        engine(torch.ones(4, 8))


def test_a_missing_package_names_the_extra(monkeypatch, load, module) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    extra = module.replace("_", "-")
    with pytest.raises(ExecutorUnavailableError, match=rf"pip install 'trt-runtime\[{extra}\]'"):
        load()


@pytest.mark.gpu
def test_a_real_plan_runs_on_the_gpu(rtx_plan) -> None:
    engine = Engine.from_plan(rtx_plan, relu_record(device="cuda:0"))
    x = torch.randn(4, 8, device="cuda")
    torch.testing.assert_close(engine(x)[0], x.relu())

"""Lowered programs, read back with ExecuTorch's own deserializer."""

import copy
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.schema import KernelCall, Tensor, TensorShapeDynamism
from torch.export import Dim, ExportedProgram, export

import trt_export
from export.programs import (
    Calls,
    binding,
    engine,
    execute,
    one_call,
    one_output_engine,
    plan_of,
    result,
    rtx_plan,
    two_output_engine,
)
from trt_export.errors import LoweringError, NoEngineError, OutputAllocatorError, OutputFileError

X, Y = torch.ones(2, 8), torch.zeros(2, 8)
BATCH = Dim("batch", min=1, max=16)


def lower(programs: Any, **options: Any) -> PTEFile:
    """With plans inline; what differs with plans in named data is in test_named_data.py."""
    edge = trt_export.to_edge(programs, format="tr01", **options)
    return deserialize_pte_binary(edge.to_executorch().buffer)


def payloads(pte: PTEFile, method: int = 0) -> list[tuple[dict[str, Any], bytes]]:
    """Metadata and plan of each of our delegates, parsed here without the code under test."""
    found = []
    for delegate in pte.program.execution_plan[method].delegates:
        if delegate.id == "TensorRTBackend":
            blob = pte.program.backend_delegate_data[delegate.processed.index].data
            _, at, size, engine_at, engine_size, _ = struct.unpack_from("<4sIIIQ8s", blob)
            metadata = json.loads(blob[at : at + size])
            found.append((metadata, blob[engine_at : engine_at + engine_size]))
    return found


def names(metadata: dict[str, Any], *, is_input: bool) -> list[str]:
    return [entry["name"] for entry in metadata["io_bindings"] if entry["is_input"] is is_input]


def kernels(pte: PTEFile, method: int = 0) -> list[str]:
    plan = pte.program.execution_plan[method]
    return [
        plan.operators[step.instr_args.op_index].name
        for step in plan.chains[0].instructions
        if isinstance(step.instr_args, KernelCall)
    ]


def delegate_arguments(pte: PTEFile) -> list[int]:
    """The values that the one delegate of the program is called with."""
    plan = pte.program.execution_plan[0]
    calls = [step.instr_args for step in plan.chains[0].instructions]
    (arguments,) = [call.args for call in calls if hasattr(call, "delegate_index")]
    return arguments


def tensors(pte: PTEFile, which: str) -> list[Tensor]:
    plan = pte.program.execution_plan[0]
    return [plan.values[index].val for index in getattr(plan, which)]


def two_calls(forward: Callable[..., Any], **held: Any) -> ExportedProgram:
    return export(Calls(forward, **held), (X, Y))


def test_the_payload_is_the_engine() -> None:
    held = one_output_engine(rtx_plan(5000), name="mine", hardware_compatible=True)
    pte = lower(one_call(held))
    ((metadata, plan),) = payloads(pte)
    assert plan == plan_of(held) == rtx_plan(5000)
    assert metadata["io_bindings"] == [
        {"name": "in_0", "dtype": "float32", "shape": [-1, 8], "is_input": True},
        {"name": "out_0", "dtype": "float32", "shape": [-1, 4], "is_input": False},
    ]
    assert metadata["hardware_compatible"] is True
    assert metadata["device_id"] == -1
    assert metadata["target_platform"] == "linux_x86_64"
    assert json.loads(metadata["serialized_metadata"])["provenance"] == {"builder": "by hand"}


def test_the_device_is_the_engines_own() -> None:
    first, second = one_output_engine(device="cuda:3"), one_output_engine(device="cuda:0")
    model = Calls(
        lambda self, x: execute([execute([x], self.first)[0].repeat(1, 2)], self.second)[0],
        first=one_output_engine(),
        second=one_output_engine(),
    )
    program = export(model, (X,))
    program.constants.update(first=first, second=second)
    assert [metadata["device_id"] for metadata, _ in payloads(lower(program))] == [3, 0]


def test_aliased_outputs_are_told() -> None:
    held = engine(
        [binding("new", "float32", 2, 8), binding("cache", "float32", 2, 8)],
        [result("updated", "float32", 2, 8)],
        aliased_io=[{"output": "updated", "input": "cache", "kind": "kv_cache_update"}],
    )
    pte = lower(two_calls(lambda self, x, y: execute([x, y], self.engine)[0], engine=held))
    assert pte.program.backend_delegate_data[0].data[:4] == b"TR02"
    ((metadata, _),) = payloads(pte)
    assert metadata["aliased_io"] == [
        {"output": "updated", "input": "cache", "kind": "kv_cache_update"}
    ]


def test_bytes_are_deterministic() -> None:
    program = one_call()
    first = trt_export.to_edge(program).to_executorch().buffer
    assert trt_export.to_edge(copy.copy(program)).to_executorch().buffer == first
    assert trt_export.to_edge(one_call()).to_executorch().buffer == first


def test_upper_bounds_are_planned_for() -> None:
    pte = lower(one_call())
    (taken,), (given,) = tensors(pte, "inputs"), tensors(pte, "outputs")
    assert (taken.sizes, taken.shape_dynamism) == ([16, 8], TensorShapeDynamism.DYNAMIC_BOUND)
    assert (given.sizes, given.shape_dynamism) == ([16, 4], TensorShapeDynamism.DYNAMIC_BOUND)


def test_a_derived_dynamic_dimension_is_planned_for() -> None:
    held = engine(
        [binding("x", "float32", "i0d0", 8)],
        [result("y", "float32", "2 * i0d0 + 1"), result("z", "float32")],
    )
    program = export(
        Calls(lambda self, x: tuple(execute([x], self.engine)), engine=held),
        (X,),
        dynamic_shapes=(({0: BATCH},),),
    )
    assert [value.sizes for value in tensors(lower(program), "outputs")] == [[33], []]


def test_inputs_are_matched_by_node_and_outputs_by_index() -> None:
    """The call takes y before x, and the program uses the second output first."""

    def crossed(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        left = torch.relu(y)
        values, indices = execute([left, x], self.engine)
        return indices, values

    ((metadata, _),) = payloads(lower(two_calls(crossed, engine=two_output_engine())))
    assert names(metadata, is_input=True) == ["left", "right"]
    assert names(metadata, is_input=False) == ["values", "indices"]


def test_arguments_of_the_delegate_are_the_bindings_in_order() -> None:
    """Followed through the file: which value goes into which argument."""
    pte = lower(
        two_calls(lambda self, x, y: execute([y, x], self.engine)[::-1], engine=two_output_engine())
    )
    plan = pte.program.execution_plan[0]
    first_input, second_input = plan.inputs
    indices, values = plan.outputs
    assert delegate_arguments(pte) == [second_input, first_input, values, indices]


def test_one_tensor_for_two_inputs() -> None:
    pte = lower(
        two_calls(
            lambda self, x, y: execute([x, x], self.engine)[0] + y[:, :4],
            engine=two_output_engine(),
        )
    )
    ((metadata, _),) = payloads(pte)
    assert names(metadata, is_input=True) == ["left", "right"]
    assert len(set(delegate_arguments(pte))) == 4


@pytest.mark.parametrize("used", [(), (0,), (1,), (0, 1), (1, 1), (1, 0, 1)])
def test_every_output_of_the_engine_is_an_argument_whatever_is_used(used: tuple[int, ...]) -> None:
    def pick(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        outputs = execute([x, y], self.engine)
        return (x + y, *(outputs[index] for index in used))

    pte = lower(two_calls(pick, engine=two_output_engine()))
    assert len(tensors(pte, "outputs")) == 1 + len(used)
    if not used:
        assert payloads(pte) == []  # torch removes a call that nobody uses
        return
    ((metadata, _),) = payloads(pte)
    assert names(metadata, is_input=False) == ["values", "indices"]
    assert len(delegate_arguments(pte)) == 4


def test_several_single_outputs_and_a_scalar() -> None:
    held = engine(
        [binding("x", "float32", 2, 8)], [result("total", "float32"), result("flag", "bool")]
    )
    program = two_calls(lambda self, x, y: (*execute([x + y], self.engine), y), engine=held)
    pte = lower(program)
    assert [value.sizes for value in tensors(pte, "outputs")] == [[], [], [2, 8]]


def test_zero_sized_tensors() -> None:
    held = engine([binding("x", "float32", 0, 8)], [result("y", "float32", 0)])
    program = export(
        Calls(lambda self, x: execute([x], self.engine)[0], engine=held), (torch.ones(0, 8),)
    )
    ((metadata, _),) = payloads(lower(program))
    assert [entry["shape"] for entry in metadata["io_bindings"]] == [[0, 8], [0]]


def test_an_engine_used_twice_gives_two_delegates() -> None:
    def twice(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return execute([x], self.engine)[0] + execute([y], self.engine)[0]

    pte = lower(two_calls(twice, engine=one_output_engine()))
    assert [plan for _, plan in payloads(pte)] == [rtx_plan(), rtx_plan()]
    assert kernels(pte) == ["aten::add"]


def test_chained_engines_keep_their_plans_apart() -> None:
    second = engine(
        [binding("in_0", "float32", "i0d0", 4)], [result("out_0", "bool")], rtx_plan(seed=9)
    )
    program = two_calls(
        lambda self, x, y: execute([execute([x], self.first)[0]], self.second)[0],
        first=one_output_engine(),
        second=second,
    )
    assert [plan for _, plan in payloads(lower(program))] == [rtx_plan(), rtx_plan(seed=9)]


def test_two_methods() -> None:
    programs = {"prefill": one_call(), "decode": one_call(one_output_engine(rtx_plan(seed=5)))}
    pte = lower(programs, constant_methods={"vocabulary": 32000})
    methods = {plan.name: index for index, plan in enumerate(pte.program.execution_plan)}
    assert set(methods) == {"prefill", "decode", "vocabulary"}
    assert [plan for _, plan in payloads(pte, methods["prefill"])] == [rtx_plan()]
    assert [plan for _, plan in payloads(pte, methods["decode"])] == [rtx_plan(seed=5)]


def test_the_program_around_the_engine_stays() -> None:
    model = Calls(
        lambda self, x: torch.sigmoid(execute([self.linear(x)], self.engine)[0] * self.scale),
        engine=one_output_engine(),
        linear=torch.nn.Linear(8, 8),
        scale=torch.full((4,), 2.0),
    )
    pte = lower(export(model, (X,)))
    assert kernels(pte) == ["aten::permute_copy", "aten::addmm", "aten::mul", "aten::sigmoid"]


def test_other_partitioners_beside_ours() -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    model = Calls(
        lambda self, x: execute([self.linear(x)], self.engine)[0],
        engine=one_output_engine(),
        linear=torch.nn.Linear(8, 8),
    )
    program = export(model, (X,))
    for partitioners in ([XnnpackPartitioner()], {"forward": [XnnpackPartitioner()]}):
        pte = lower(program, partitioners=partitioners)
        assert [d.id for d in pte.program.execution_plan[0].delegates] == [
            "XnnpackBackend",
            "TensorRTBackend",
        ]
        assert kernels(pte) == []


def test_transform_passes_see_the_engine_call() -> None:
    seen: list[str] = []

    def look(module: torch.fx.GraphModule) -> Any:
        from torch.fx.passes.infra.pass_base import PassResult

        seen.extend(str(node.target) for node in module.graph.nodes)
        return PassResult(module, False)

    lower(one_call(), transform_passes=[look])
    assert any("execute_plan" in target for target in seen)


# ExecuTorch warns of every mutated buffer, also of one whose initial state it writes.
mutated_state = pytest.mark.filterwarnings("ignore:Mutation on a buffer in the model:UserWarning")


def state_program(initial: torch.Tensor, persistent: bool = True) -> ExportedProgram:
    """A cache that one engine output replaces, the way a decoder's KV cache is updated."""
    held = engine(
        [binding("new", "float32", 2, 8), binding("cache", "float32", 2, 8)],
        [result("answer", "float32", 2, 8), result("updated", "float32", 2, 8)],
    )

    def step(self: Any, x: torch.Tensor) -> torch.Tensor:
        answer, updated = execute([x, self.cache], self.engine)
        self.cache.copy_(updated)
        return answer

    model = Calls(step, engine=held)
    model.register_buffer("cache", initial, persistent=persistent)
    return export(model, (X,))


@mutated_state
@pytest.mark.parametrize("persistent", [True, False])
def test_state_stays_outside_of_the_delegate(persistent: bool) -> None:
    pte = lower(state_program(torch.zeros(2, 8), persistent))
    ((metadata, _),) = payloads(pte)
    assert names(metadata, is_input=True) == ["new", "cache"]
    assert kernels(pte) == ["aten::copy_"]
    assert len(tensors(pte, "inputs")) == 1


@mutated_state
@pytest.mark.parametrize("persistent", [True, False])
def test_initial_state_that_is_not_zero_is_in_the_file(persistent: bool) -> None:
    initial = torch.arange(16.0).reshape(2, 8)
    pte = lower(state_program(initial, persistent))
    assert [buffer.storage for buffer in pte.mutable_data] == [b"", initial.numpy().tobytes()]


def test_unmutated_buffers_that_an_engine_reads_are_constants_above_it() -> None:
    weights = torch.arange(16.0).reshape(2, 8)
    model = Calls(
        lambda self, x: execute([x, self.weights], self.engine)[0],
        engine=two_output_engine(),
        weights=weights,
    )
    pte = lower(export(model, (X,)))
    ((metadata, _),) = payloads(pte)
    assert names(metadata, is_input=True) == ["left", "right"]
    assert weights.numpy().tobytes() in [bytes(b.storage) for b in pte.program.constant_buffer]


def test_saved_and_loaded_programs() -> None:
    program = one_call()
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    ((_, plan),) = payloads(lower(torch.export.load(file)))
    assert plan == rtx_plan()


def test_a_loaded_program_with_a_derived_dimension() -> None:
    half = Dim("half", min=1, max=8)
    model = Calls(lambda self, x: execute([x * 2], self.engine)[0], engine=one_output_engine())
    program = export(model, (torch.ones(4, 8),), dynamic_shapes=(({0: 2 * half},),))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for candidate in (program, torch.export.load(file)):
        assert [value.sizes for value in tensors(lower(candidate), "outputs")] == [[16, 4]]


def test_decomposed_programs() -> None:
    ((_, plan),) = payloads(lower(one_call().run_decompositions()))
    assert plan == rtx_plan()


def test_zero_copy_io_config_works() -> None:
    config = ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    )
    manager = trt_export.to_edge(one_call(), format="tr01").to_executorch(config)
    assert payloads(deserialize_pte_binary(manager.buffer))


@mutated_state
def test_programs_are_not_changed_and_may_be_lowered_again() -> None:
    programs = {"a": one_call(), "b": state_program(torch.ones(2, 8))}
    before = {name: (str(program), dict(program.constants)) for name, program in programs.items()}
    lower(programs)
    assert {name: (str(p), dict(p.constants)) for name, p in programs.items()} == before
    assert torch.equal(programs["b"].state_dict["cache"], torch.ones(2, 8))
    lower(programs)


def test_a_failure_changes_nothing() -> None:
    good, bad = one_call(), one_call()
    bad.constants["engine"] = one_output_engine(requires_output_allocator=True)
    before = (str(good), str(bad))
    with pytest.raises(OutputAllocatorError, match="method 'bad'"):
        trt_export.to_edge({"good": good, "bad": bad})
    assert (str(good), str(bad)) == before
    good.validate()


def test_a_program_without_engines() -> None:
    with pytest.raises(NoEngineError):
        trt_export.to_edge(export(torch.nn.ReLU(), (X,)))


def test_another_backend_of_the_same_name_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Namesake:
        __name__ = "TensorRTBackend"
        __module__ = "somewhere.else"

    real = BackendDetails.__subclasses__()
    monkeypatch.setattr(
        "trt_export.delegate.call_arguments.BackendDetails",
        type("B", (), {"__subclasses__": lambda: [Namesake(), *real]}),
    )
    with pytest.raises(LoweringError, match=r"somewhere\.else has a backend 'TensorRTBackend' too"):
        trt_export.to_edge(one_call())


def test_save_takes_both_managers(tmp_path: Path) -> None:
    edge = trt_export.to_edge(one_call())
    assert trt_export.save(edge, tmp_path / "a.pte") == (tmp_path / "a.pte",)
    trt_export.save(trt_export.to_edge(one_call()).to_executorch(), str(tmp_path / "b.pte"))
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()
    assert trt_export.info(tmp_path / "a.pte").problems == []


def test_save_finds_out_early_where_it_cannot_write(tmp_path: Path) -> None:
    edge = trt_export.to_edge(one_call())
    with pytest.raises(OutputFileError, match="there is no directory"):
        trt_export.save(edge, tmp_path / "no" / "model.pte")
    with pytest.raises(OutputFileError, match="it is a directory"):
        trt_export.save(edge, tmp_path)


def test_save_writes_external_data_beside_the_program(tmp_path: Path) -> None:
    model = Calls(
        lambda self, x: execute([self.linear(x)], self.engine)[0],
        engine=one_output_engine(),
        linear=torch.nn.Linear(8, 8),
    )
    edge = trt_export.to_edge(export(model, (X,)))
    config = ExecutorchBackendConfig(external_constants=lambda node: "weights")
    written = trt_export.save(edge, tmp_path / "model.pte", config=config)
    assert written == (tmp_path / "model.pte", tmp_path / "weights.ptd")
    assert sorted(tmp_path.iterdir()) == sorted(written)

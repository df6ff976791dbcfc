"""Programs with engines of torch-tensorrt: found, read and lowered like our own.

`test_foreign.py` runs this file for each version of the class, in a process of its own: torch registers a class once.
"""

import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind, OutputKind

import trt_export
import trt_runtime
from export import programs
from export.foreign.double import PICKLE, engine, execute, load_double, plan, record
from export.preparing import prepare
from trt_export.cli import main
from trt_export.engines.expressions import evaluate
from trt_export.engines.find import find_calls
from trt_export.errors import (
    BindingMismatchError,
    EngineObjectError,
    EngineRecordError,
    LoweringError,
    MissingCapabilityError,
    OutputAllocatorError,
)
from trt_export.inspecting import Pt2Info
from trt_export.passes.engine_op import is_execute_plan

serializations = load_double(Path(os.environ["FOREIGN_LIBRARY"]))
ACCESSORS = os.environ["FOREIGN_ACCESSORS"] == "1"

X = torch.ones(2, 8)
BATCH = Dim("batch", min=1, max=16)
FORMS = pytest.mark.parametrize("decomposed", [False, True], ids=["plain", "in with_effects"])


def program(
    decomposed: bool = False, forward: Any = None, dynamic: bool = True, **held: Any
) -> ExportedProgram:
    """relu -> engine -> + 1, unless a forward function is given."""
    model = programs.Calls(
        forward or (lambda self, x: execute([torch.relu(x)], self.engine)[0] + 1),
        **(held or {"engine": engine()}),
    )
    shapes = (({0: BATCH},),) if dynamic else None
    made = export(model, (X,), dynamic_shapes=shapes)
    return made.run_decompositions() if decomposed else made


def lower(methods: Any, **options: Any) -> Any:
    edge = trt_export.to_edge(methods, **options)
    return deserialize_pte_binary(edge.to_executorch().buffer).program


def blobs(pte: Any) -> list[bytes]:
    return [
        pte.backend_delegate_data[delegate.processed.index].data
        for delegate in pte.execution_plan[0].delegates
    ]


def parts(blob: bytes) -> tuple[dict[str, Any], bytes]:
    _, at, size, engine_at, engine_size, _ = struct.unpack_from("<4sIIIQ8s", blob)
    return json.loads(blob[at : at + size]), blob[engine_at : engine_at + engine_size]


def sizes(pte: Any) -> list[list[int]]:
    method = pte.execution_plan[0]
    return [method.values[index].val.sizes for index in method.outputs]


def tokens(found: ExportedProgram) -> int:
    signature = found.graph_signature
    return sum(spec.kind is InputKind.TOKEN for spec in signature.input_specs) + sum(
        spec.kind is OutputKind.TOKEN for spec in signature.output_specs
    )


def test_it_is_probed_by_its_methods() -> None:
    found = trt_export.probe(engine())
    assert found.engine_class == "tensorrt.Engine"
    expected = {"tracing-mode-real", "metadata-only", "engine-tensor"} if ACCESSORS else set()
    assert found.names == expected


@FORMS
def test_the_form_of_the_call_is_the_one_that_the_test_is_about(decomposed: bool) -> None:
    made = program(decomposed)
    (call,) = find_calls(made)
    assert call.is_effectful is decomposed
    assert call.node.name == ("with_effects" if decomposed else "execute_engine")
    assert [node.name for node in call.inputs] == ["relu"]
    assert [tuple(value.shape)[1:] for value in call.outputs] == [(4,)]
    assert bool(tokens(made)) is decomposed


@FORMS
def test_the_payload_is_the_engine(decomposed: bool) -> None:
    (blob,) = blobs(lower(program(decomposed)))
    assert blob[:4] == b"TR01"
    metadata, found = parts(blob)
    assert found == plan()
    assert metadata == {
        "io_bindings": [
            {"name": "x", "dtype": "float32", "shape": [-1, 8], "is_input": True},
            {"name": "output_0", "dtype": "float32", "shape": [-1, 4], "is_input": False},
        ],
        "hardware_compatible": True,
        "device_id": 0,
        # A pickle, passed on as it is. Unpickling it would end this process.
        "serialized_metadata": PICKLE,
        "target_platform": "linux_x86_64",
    }


@FORMS
def test_the_rewritten_program_is_valid_and_has_no_tokens(decomposed: bool) -> None:
    source = program(decomposed)
    before = (str(source), tokens(source))
    made = prepare({"forward": source})["forward"]
    made.validate()
    assert tokens(made) == 0
    assert made.constants == {}
    assert len(made.graph_signature.user_inputs) == len(made.graph_signature.user_outputs) == 1
    assert not any("with_effects" in str(node.target) for node in made.graph.nodes)
    assert (str(source), tokens(source)) == before
    source.validate()


@FORMS
def test_outputs_have_their_own_sizes_at_every_batch(decomposed: bool) -> None:
    made = program(
        decomposed,
        lambda self, x: tuple(execute([x], self.engine)),
        engine=engine(outputs="a%b"),
    )
    pte = lower(made)
    assert sizes(pte) == [[16, 4], [33]]
    (call,) = (node for node in prepare({"f": made})["f"].graph.nodes if is_execute_plan(node))
    assert [str(value.dtype) for value in call.meta["val"]] == ["torch.float32", "torch.int64"]
    (size,) = json.loads(call.args[3][13])["outputs"][1]["shape"]
    assert [evaluate(size, {"i0d0": batch}) for batch in (1, 16)] == [3, 33]


@FORMS
def test_an_output_that_nobody_uses(decomposed: bool) -> None:
    made = program(
        decomposed, lambda self, x: execute([x], self.engine)[1], engine=engine(outputs="a%b")
    )
    pte = lower(made)
    assert sizes(pte) == [[33]]
    metadata, _ = parts(*blobs(pte))
    assert [entry["name"] for entry in metadata["io_bindings"]] == ["x", "a", "b"]


@FORMS
def test_engines_in_a_row_and_one_called_twice_are_read_once_each(decomposed: bool) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        once = execute([x], self.first)[0].repeat(1, 2)
        return execute([once], self.second)[0] + execute([x], self.first)[0]

    made = program(decomposed, forward, first=engine(), second=engine())
    assert len(find_calls(made)) == 3
    before = serializations()
    methods = prepare({"a": made, "b": made})
    assert serializations() - before == (0 if ACCESSORS else 2)
    for other in methods.values():
        other.validate()
        assert tokens(other) == 0
    assert [parts(blob)[1] for blob in blobs(lower(made))] == [plan()] * 3


def test_the_whole_lowering_serializes_no_engine_that_has_the_accessors() -> None:
    made = program(decomposed=True)
    before = serializations()
    trt_export.to_edge(made)
    assert serializations() - before == (0 if ACCESSORS else 1)


def test_a_token_that_something_else_needs_stays() -> None:
    library = torch.library.Library("foreign_cases", "DEF")
    library.define("tell(Tensor x) -> Tensor")
    library.impl("tell", torch.clone, "CompositeExplicitAutograd")
    torch.library.register_fake("foreign_cases::tell", torch.clone)
    _register_effectful_op("foreign_cases::tell", _EffectType.ORDERED)

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        told = torch.ops.foreign_cases.tell(x)
        result = execute([told], self.engine)[0]
        return execute([torch.ops.foreign_cases.tell(result).repeat(1, 2)], self.engine)[0]

    made = prepare({"f": program(True, forward, engine=engine())})["f"]
    made.validate()
    effects = [node for node in made.graph.nodes if "with_effects" in str(node.target)]
    assert [str(node.args[1]) for node in effects] == ["foreign_cases.tell.default"] * 2
    assert tokens(made) == 2
    token_out = made.graph_signature.output_specs[0].arg.name
    assert token_out == made.graph.output_node().args[0][0].name
    assert effects[1].args[0].args[0] is effects[0]
    library._destroy()


@pytest.mark.parametrize("abi", [5, 6, 7, 8, 9, 10])
def test_records_of_every_abi(abi: int) -> None:
    metadata, found = parts(*blobs(lower(program(engine=engine(abi=abi)))))
    assert found == plan()
    assert metadata["serialized_metadata"] == (PICKLE if abi > 5 else "")
    assert metadata["target_platform"] == ("linux_x86_64" if abi > 5 else "")
    assert metadata["device_id"] == 0


def changed(slot: int, value: str, abi: int = 10) -> ExportedProgram:
    fields = record(abi=abi)
    fields[slot] = value
    return program(engine=torch.classes.tensorrt.Engine(fields))


@pytest.mark.parametrize(
    ("slot", "value", "message"),
    [
        (0, "11", "expected an engine record of ABI 5, 6, 7, 8, 9 or 10, found '11'"),
        (0, "4", "expected an engine record of ABI"),
        (0, "9", "an engine record of ABI 9 has 12 fields, this one has 13"),
        (2, "NVIDIA A10", "expected a device"),
        (2, "1%8%6%1%DLA", "expected a device `id%major%minor%type%name` with type 0"),
        (9, "maybe", "'requires output allocator'"),
    ],
)
def test_a_record_that_is_not_understood_is_refused(slot: int, value: str, message: str) -> None:
    with pytest.raises(EngineRecordError, match=message):
        prepare({"f": changed(slot, value)})


def test_an_engine_that_needs_an_output_allocator_is_refused() -> None:
    with pytest.raises(OutputAllocatorError, match="'output_0'"):
        prepare({"f": changed(9, "1")})


@FORMS
def test_another_number_of_bindings_names_both_sides(decomposed: bool) -> None:
    made = program(decomposed)
    made.constants["engine"] = engine(outputs="a%b")
    with pytest.raises(BindingMismatchError, match=r"2 outputs \['a', 'b'\], the graph has 1"):
        prepare({"f": made})


def test_a_size_that_no_input_tells_is_refused() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return execute([x], self.engine)[0]

    made = program(forward=forward, engine=engine())
    (call,) = find_calls(made)
    (value,) = call.outputs
    unknown = value.fake_mode.shape_env.create_unbacked_symint()
    with value.fake_mode:
        call.node.meta["val"] = [torch.empty(unknown, 4)]
    with pytest.raises(
        LoweringError, match=r"'output_0' of engine call .* no input's shape tells u"
    ):
        prepare({"f": made})


def test_aliased_outputs_are_told() -> None:
    made = program(engine=engine(aliases="output_0@x@kv_cache_update"))
    (blob,) = blobs(lower(made))
    assert blob[:4] == b"TR02"
    assert parts(blob)[0]["aliased_io"] == [
        {"output": "output_0", "input": "x", "kind": "kv_cache_update"}
    ]


def test_beside_our_own_engines() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return execute([x], self.theirs)[0] + programs.execute([x], self.ours)[0]

    made = program(True, forward, theirs=engine(), ours=programs.one_output_engine())
    inline = lower(made, format="tr01")
    assert [parts(blob)[1] for blob in blobs(inline)] == [plan(), programs.rtx_plan()]
    # Left to itself, each goes to where the delegate of its own library reads it.
    inline_id = "TensorRTBackend"
    own = "TrtRuntimeBackend" if "named-data-delegate" in trt_runtime.capabilities() else inline_id
    (method,) = lower(made).execution_plan
    assert [delegate.id for delegate in method.delegates] == [inline_id, own]


def test_named_data_is_not_for_them() -> None:
    with pytest.raises(
        LoweringError, match=r"found one of class tensorrt\.Engine.*reads tr01 only"
    ):
        lower(program(), format="named-data")


def test_saved_and_loaded() -> None:
    file = io.BytesIO()
    torch.export.save(program(), file)
    file.seek(0)
    assert parts(*blobs(lower(torch.export.load(file))))[1] == plan()


@FORMS
def test_files_with_such_engines_are_described_and_built(
    decomposed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.pt2"
    torch.export.save(program(decomposed, engine=engine(abi=9)), file)
    found = trt_export.info(file)
    assert isinstance(found, Pt2Info)
    assert [item.calls for item in found.programs] == [1]
    (stored,) = found.engines
    assert (stored.type, stored.problem) == ("tensorrt.Engine", None)
    assert stored.engine is not None
    assert (stored.engine.plan_format, stored.engine.device) == ("tensorrt", "cuda:0")
    assert [(item.role, item.name, item.shape) for item in stored.engine.bindings] == [
        ("input", "x", None),
        ("output", "output_0", None),
    ]
    assert main(["info", str(file)]) == 0
    assert "input x: dtype and shape are not in its record" in capsys.readouterr().out
    output = tmp_path / "model.pte"
    assert main(["build", str(file), "-o", str(output)]) == 0
    (blob,) = blobs(deserialize_pte_binary(output.read_bytes()).program)
    assert parts(blob)[1] == plan()


def test_a_file_is_not_built_where_the_class_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "model.pt2"
    torch.export.save(program(), file)
    done = subprocess.run(
        [sys.executable, "-m", "trt_export", "build", str(file), "-o", str(tmp_path / "m.pte")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "holds engines of torch-tensorrt, which must be there" in done.stderr
    assert done.stderr.endswith(": pip install torch-tensorrt\n")


def test_our_op_takes_no_foreign_engine_and_theirs_none_of_ours() -> None:
    made = program()
    made.constants["engine"] = programs.one_output_engine()
    with pytest.raises(
        EngineObjectError, match=r"is of class trt_runtime\.Engine, expected tensorrt\.Engine"
    ):
        find_calls(made)


def test_what_is_missing_is_said_with_the_library_that_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trt_export.engines.fallback._announced", set())
    made = program()
    if ACCESSORS:
        monkeypatch.setenv("TRT_EXPORT_STRICT", "1")
        trt_export.to_edge(made)
        return
    with pytest.warns(trt_export.FallbackWarning) as caught:
        trt_export.to_edge(made)
    texts = [str(item.message) for item in caught if item.category is trt_export.FallbackWarning]
    assert ["metadata-only" in text for text in texts] == [True, False]
    assert ["engine-tensor" in text for text in texts] == [False, True]
    for text in texts:
        assert os.environ["FOREIGN_LIBRARY"] in text
        assert text.endswith("pip install -U 'torch-tensorrt>=2.14'")
    monkeypatch.setenv("TRT_EXPORT_STRICT", "1")
    before = (serializations(), str(made))
    with pytest.raises(MissingCapabilityError, match=r"metadata-only.*engine-tensor"):
        trt_export.to_edge(made)
    assert (serializations(), str(made)) == before

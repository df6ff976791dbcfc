"""A real model down the whole road: the sentence encoder of the demo, with its own weights."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

import trt_export
from lowering import load

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "sentence_encoder.py"
MODEL_BYTES = 90e6

# The model's tokenizer and transformers are not ours; what they deprecate is not our error.
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return runpy.run_path(str(DEMO))


@pytest.fixture(scope="module")
def model(demo: dict[str, Any]) -> torch.nn.Module:
    encoder, _ = demo["load_model"]()
    return encoder.requires_grad_(False)


@pytest.fixture(scope="module")
def program(demo: dict[str, Any], model: torch.nn.Module) -> ExportedProgram:
    ids = torch.arange(2 * 7).reshape(2, 7) + 1000
    return demo["export"](model, ids, torch.ones_like(ids))


def engines(program: ExportedProgram) -> list[Any]:
    return [value for value in program.constants.values() if isinstance(value, torch.ScriptObject)]


@pytest.fixture(scope="module")
def compiled(program: ExportedProgram) -> ExportedProgram:
    return trt_export.compile(program, builder="onnxruntime")


def test_the_whole_encoder_is_one_engine(
    program: ExportedProgram, compiled: ExportedProgram
) -> None:
    assert len(engines(compiled)) == 1
    # Nothing of the encoder is computed outside, and the engine hands out nothing but the embedding. (The
    # model's own checks of its inputs stay; they have no result.)
    results = [node for node in compiled.graph.nodes if node.op == "call_function" and node.users]
    assert [str(node.target) for node in results] == [
        "trt_runtime.execute_engine.default",
        "<built-in function getitem>",
    ]
    assert compiled.graph_signature.user_outputs == program.graph_signature.user_outputs


@pytest.mark.parametrize(("batch", "sequence"), [(1, 2), (3, 17), (16, 40), (2, 256)])
def test_the_engine_equals_eager_at_every_size(
    model: torch.nn.Module, compiled: ExportedProgram, batch: int, sequence: int
) -> None:
    ids = torch.randint(1000, 20000, (batch, sequence))
    mask = torch.ones_like(ids)
    mask[0, sequence // 2 :] = 0
    torch.testing.assert_close(compiled.module()(ids, mask), model(ids, mask), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("builder", ["onnxruntime", "tensorrt-rtx"])
def test_the_file_holds_the_weights_once(
    program: ExportedProgram, compiled: ExportedProgram, builder: str, tmp_path: Path
) -> None:
    if builder == "tensorrt-rtx":
        compiled = trt_export.compile(program, builder=builder)
    path = tmp_path / "minilm.pte"
    trt_export.save(trt_export.to_edge(compiled), path)
    assert MODEL_BYTES < path.stat().st_size < 1.1 * MODEL_BYTES
    (method,) = trt_export.info(path).methods
    (delegate,) = method.delegates
    assert delegate.engine is not None
    assert delegate.engine.plan_format == builder


def test_the_file_equals_eager_at_every_size(
    model: torch.nn.Module, compiled: ExportedProgram, tmp_path: Path
) -> None:
    loaded = load(compiled, tmp_path / "minilm.pte")
    for batch, sequence in ((1, 2), (3, 17), (16, 40), (2, 256), (3, 17)):
        ids = torch.randint(1000, 20000, (batch, sequence))
        mask = torch.ones_like(ids)
        mask[0, sequence // 2 :] = 0
        torch.testing.assert_close(
            loaded.run([ids, mask]), [model(ids, mask)], rtol=1e-5, atol=1e-5
        )


@pytest.mark.memory
def test_the_weights_are_not_copied_to_run(compiled: ExportedProgram, tmp_path: Path) -> None:
    """What is left is what ONNX Runtime packs for its matrix products."""
    path = tmp_path / "minilm.pte"
    trt_export.save(trt_export.to_edge(compiled), path)

    def megabytes(way: str) -> dict[str, float]:
        script = ROOT / "benchmarks" / "delegate.py"
        command = [sys.executable, str(script), "memory-of", str(path), "--way", way]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found: dict[str, float] = json.loads(said.splitlines()[-1])
        return found

    program = megabytes("program")
    assert megabytes("bare session")["bare session"] - program["program"] > 40
    assert program["the same again"] < 1

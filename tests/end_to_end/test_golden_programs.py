"""Files of every released exporter run on this runtime: compat/golden."""

import json
from pathlib import Path

import pytest
import releases
import torch

import trt_runtime
from trt_runtime.delegate.check import check

GOLDEN = Path(__file__).parents[2] / "compat" / "golden"
EXPORTERS = [item.version for item in releases.verify() if item.package == "trt-export"]


def test_every_released_exporter_has_left_its_files() -> None:
    assert {path.name for path in GOLDEN.glob("*.pte")} == {
        f"export-{version}-{plan}.pte"
        for version in EXPORTERS
        for plan in ("onnxruntime", "tensorrt-rtx")
    }


@pytest.mark.parametrize("version", EXPORTERS)
def test_an_onnxruntime_program_gives_what_eager_pytorch_gave(version: str) -> None:
    program = trt_runtime.load(GOLDEN / f"export-{version}-onnxruntime.pte")
    for case in json.loads((GOLDEN / "cases.json").read_text()):
        (y,) = program.run([torch.tensor(case["x"])])
        torch.testing.assert_close(y, torch.tensor(case["y"]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("version", EXPORTERS)
def test_a_tensorrt_program_is_read_and_refused_for_want_of_a_gpu(version: str) -> None:
    path = GOLDEN / f"export-{version}-tensorrt-rtx.pte"
    (found,) = check(path)
    assert (found.verdict, found.format) == ("INVALID", "tensorrt-rtx")
    with pytest.raises(trt_runtime.ExecutorUnavailableError, match=r"CUDA|GPU"):
        trt_runtime.load(path).run([torch.zeros(1, 8)])

"""Arguments of a wrong type are named by an error of ours, before any work."""

from __future__ import annotations

import functools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import trt_export
from trt_export.errors import (
    ArgumentError,
    ComputeCapabilityError,
    DynamicShapeError,
    LoweringError,
    TrtExportError,
)


class Product(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ x.mT


@functools.cache
def exported() -> ExportedProgram:
    rows = {0: Dim("rows", max=8)}
    return torch.export.export(Product(), (torch.randn(2, 3),), dynamic_shapes=(rows,))


@functools.cache
def compiled() -> ExportedProgram:
    return trt_export.compile(exported(), verify=False)


@functools.cache
def lowered() -> EdgeProgramManager:
    return trt_export.to_edge(compiled())


OF_COMPILE: dict[str, tuple[type[TrtExportError], list[Any]]] = {
    "verify": (ArgumentError, ["x", None, [1], b"1", 1j, -1, float("nan"), float("inf"), 10**400]),
    "on_report": (ArgumentError, [3, "x"]),
    "on_progress": (ArgumentError, [3, []]),
    "dynamic": (DynamicShapeError, ["x", 3, [("rows", (1, 2, 3))], [], 0]),
}


@pytest.mark.parametrize("name", OF_COMPILE)
def test_compile_names_the_argument(name: str) -> None:
    kind, values = OF_COMPILE[name]
    for value in values:
        with pytest.raises(kind, match=rf"^{name}: expected .*, found "):
            trt_export.compile(exported(), **{name: value})


@pytest.mark.parametrize(
    "sizes", [3, None, "123", (1, 2), (1, 2.0, 3), (True, 2, 3), {1, 2, 3}, torch.ones(3)], ids=str
)
def test_bounds_are_three_integers(sizes: Any) -> None:
    with pytest.raises(DynamicShapeError, match=r"bounds of 'rows': expected \(min, opt, max\)"):
        trt_export.compile(exported(), dynamic={"rows": sizes})


@pytest.mark.parametrize("sizes", [np.array([1, 2, 4]), [np.int64(1), np.int64(2), np.int64(4)]])
def test_bounds_may_be_integers_of_numpy(sizes: Any) -> None:
    trt_export.compile(exported(), dynamic={"rows": sizes}, verify=False)


@pytest.mark.parametrize("verify", [np.float32(0.5), Fraction(1, 2), 0])
def test_any_real_number_is_a_time(verify: Any) -> None:
    trt_export.compile(exported(), verify=verify)


@pytest.mark.parametrize("value", [8.6, "8.6", 86, []])
def test_compute_capabilities_are_a_list(value: Any) -> None:
    with pytest.raises(ComputeCapabilityError, match="expected a list of compute capabilities"):
        trt_export.compile(exported(), builder="tensorrt-rtx", compute_capabilities=value)


OF_TO_EDGE: dict[str, list[Any]] = {
    "partitioners": [3, "x", [3], {"forward": 3}, {"forward": [3]}, {3: []}, object()],
    "transform_passes": [3, "x", [3], {"forward": [3]}, {"forward": 3}],
    "constant_methods": [3, "x", [3], {3: 1}],
    "compile_config": [3, {}, EdgeCompileConfig],
    "format": [3, [], b"tr01"],
    "on_progress": [3, "x"],
}


@pytest.mark.parametrize("name", OF_TO_EDGE)
def test_to_edge_names_the_argument(name: str) -> None:
    for value in OF_TO_EDGE[name]:
        with pytest.raises(ArgumentError, match=rf"^{name}(\['forward'\])?: expected .*, found "):
            trt_export.to_edge(compiled(), **{name: value})


def test_names_of_methods_are_text() -> None:
    programs: Any = {3: compiled()}
    with pytest.raises(ArgumentError, match=r"^programs: expected names .*, found int 3$"):
        trt_export.to_edge(programs)


@pytest.mark.parametrize("name", [3, b"plans", Path("plans"), True])
def test_the_name_of_a_data_file_is_text(name: Any) -> None:
    with pytest.raises(LoweringError, match=r"^data_file: expected the name of a file"):
        trt_export.to_edge(compiled(), data_file=name)


@pytest.mark.parametrize("manager", [None, 3, "model.pte", exported])
def test_save_takes_a_manager(manager: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^manager: expected what to_edge returned"):
        trt_export.save(manager, tmp_path / "model.pte")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", [None, 3, [], b"model.pte", "model\0.pte"])
def test_paths_are_paths(path: Any) -> None:
    for call in (lambda: trt_export.save(lowered(), path), lambda: trt_export.info(path)):
        with pytest.raises(ArgumentError, match=r"^path: expected a path"):
            call()


@pytest.mark.parametrize(
    ("name", "values"), [("config", [3, {}, EdgeCompileConfig()]), ("shared_buffers", [3, 1.5])]
)
def test_save_names_the_argument(name: str, values: list[Any], tmp_path: Path) -> None:
    for value in values:
        with pytest.raises(ArgumentError, match=rf"^{name}: expected .*, found "):
            trt_export.save(lowered(), tmp_path / "model.pte", **{name: value})
    assert not list(tmp_path.iterdir())


def test_the_text_of_a_large_value_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        trt_export.save(lowered(), tmp_path / "model.pte", config=exported())  # type: ignore[arg-type]
    text = "config: expected an ExecutorchBackendConfig or None, found ExportedProgram"
    assert str(caught.value) == text

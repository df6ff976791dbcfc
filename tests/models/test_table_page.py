"""docs/models.md: made of docs/models.json, which has a row for each model of the catalog."""

from __future__ import annotations

from pathlib import Path

from rows_of import failing, good, left

from architectures.catalog import MODELS
from architectures.page import DOCS, page, read, write

STALE = "run nox -s models and commit docs/models.json and docs/models.md"


def test_the_committed_page_is_that_of_the_committed_rows() -> None:
    assert (DOCS / "models.md").read_text() == page(list(read().values())), STALE


def test_each_model_has_a_committed_row() -> None:
    names = [model.name for model in MODELS]
    assert list(read()) == names, STALE
    assert len(set(names)) == len(names) >= 60


def test_ten_models_are_measured_by_the_tests() -> None:
    chosen = [model for model in MODELS if model.in_tests]
    assert len(chosen) == 10
    assert len({model.family for model in chosen}) >= 7


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read(tmp_path) == {}
    rows = [good(), failing("compile", name="Other")]
    write(rows, tmp_path)
    assert list(read(tmp_path).values()) == rows
    assert (tmp_path / "models.md").read_text() == page(rows)


def test_the_page_says_what_is_whole_and_why_the_rest_is_not() -> None:
    split = good(name="Split|net", engines=2, left=[left(3)])
    refused = {"engines": 0, "left": [], "refused": "CompileError: no AveragePool"}
    text = page(
        [
            good(),
            split,
            failing("compile", "ValueError: too *large*", name="Fails"),
            good(name="Wrong", error=0.25, **{"tensorrt-rtx": refused}),
        ]
    )
    assert "Of 4 models, 2 are one engine with nothing outside, 1 of these with the numbers" in text
    assert "| Net | 1 engine | 2e-07 | 1.1 | 3 | 1 engine |" in text
    assert "| Split\\|net | 2 engines, 3 nodes outside |" in text
    assert "- stays in PyTorch: 3 x `aten.sort.default`: nobody builds it" in text
    assert "| Fails | fails | - |" in text
    assert "- `compile` fails: ValueError: too \\*large\\*" in text
    assert "| Wrong | 1 engine | wrong: 2e-01 | 1.1 | 3 | refused |" in text
    assert "- `tensorrt-rtx` refuses it: CompileError: no AveragePool" in text

"""A model is measured step by step, in a process of its own: whatever happens to it is a fact of its row."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from rows_of import STEPS

from architectures.__main__ import main
from architectures.measure import Facts, measure
from architectures.spec import Model, Range, floats

pytestmark = pytest.mark.filterwarnings("ignore")  # of what is imported to make models


def model(make: Any) -> Model:
    return Model(
        "Net",
        "text encoder",
        make,
        lambda sizes: {"input": floats(sizes["batch"], 4)},
        {"input": {0: "batch"}},
        {"batch": Range(1, 2, 4)},
    )


def test_a_model_that_works_has_all_steps() -> None:
    written: list[str] = []
    facts = measure(
        model(lambda: torch.nn.Linear(4, 2).eval()), lambda facts: written.append(json.dumps(facts))
    )
    assert facts["failed"] == {}
    assert tuple(facts["seconds"]) == STEPS
    assert (facts["engines"], facts["left"], facts["verified"]) == (1, [], True)
    assert facts["built with tensorrt-rtx"]["engines"] == 1
    assert facts["weights"] == 4 * (4 * 2 + 2) < facts["plans"]
    assert max(facts["error in PyTorch"], facts["error in ExecuTorch"]) < 1e-6
    # What a process that ends early leaves: each step is written before it is tried.
    assert [json.loads(text)["step"] for text in written] == [*STEPS, None]


class _Refuses(torch.nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"\n  no, not in {__file__}, line 1\nnor here")


def test_the_error_of_a_step_is_a_fact_without_folders() -> None:
    facts = measure(model(_Refuses))
    assert list(facts["seconds"]) == ["make"]
    assert facts["failed"] == {"export": "ValueError: no, not in test_processes.py, line 1"}
    assert facts["step"] is None


def test_a_model_that_computes_zeros_is_no_measure() -> None:
    def zeros() -> torch.nn.Module:
        layer = torch.nn.Linear(4, 2)
        for parameter in layer.parameters():
            torch.nn.init.zeros_(parameter)
        return layer.eval()

    facts = measure(model(zeros))
    assert "give the model other weights" in facts["failed"]["run eagerly"]
    assert "error in PyTorch" not in facts


def test_a_process_that_takes_too_long_is_ended_and_named(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["BERT", "--limit", "1", "--json"]) == 1
    printed = capfd.readouterr()
    (row,) = json.loads(printed.out)
    ((step, error),) = row["failed"].items()
    assert error == "not done after 1 s"
    assert (row["name"], row["engines"], row["error"]) == ("BERT", None, None)
    # Progress is for terminals; what is worse is for everybody.
    assert printed.err.splitlines() == [
        f"BERT: expected `{row_step(row)}` to work, found: `{step}`: {error}",
        "docs/models.md was not written; --accept writes it",
    ]


def row_step(row: Facts) -> str:
    """Return the first step that the row is without."""
    return next(step for step in STEPS if step not in row["works"])


def test_a_row_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["BERT", "Bart Simpson"])
    assert ended.value.code == 2
    assert "expected names of rows, found 'Bart Simpson'; --list names" in capsys.readouterr().err


def test_the_rows_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "BERT (text encoder)\n" in capsys.readouterr().out
    assert main(["--list", "--json", "GPT-2"]) == 0
    assert json.loads(capsys.readouterr().out) == ["GPT-2"]

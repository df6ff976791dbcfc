"""Ten of the models of docs/models.md are as good as it says: engines, nodes outside, numbers."""

from __future__ import annotations

import pytest

from architectures.catalog import MODELS
from architectures.measure import measure
from architectures.page import read
from architectures.regressions import worse
from architectures.rows import outside, row
from architectures.spec import Model


@pytest.mark.filterwarnings("ignore")  # of transformers and torchao, which make the models
@pytest.mark.parametrize(
    "model", [model for model in MODELS if model.in_tests], ids=lambda m: m.name
)
def test_a_model_is_as_good_as_its_committed_row(model: Model) -> None:
    committed, found = read()[model.name], row(model, measure(model))
    assert worse(committed, found) == []
    # A better one is no failure, but the page should say so: nox -s models.
    assert found["engines"] <= committed["engines"]
    assert outside(found) <= outside(committed)
    assert found["error"] <= found["tolerance"]

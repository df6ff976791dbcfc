"""How outputs are compared with those of eager PyTorch."""

from __future__ import annotations

import pytest
import torch

from architectures.comparing import largest_error, require_signal

X = torch.tensor([1.0, -4.0, 2.0])


def test_the_largest_difference_of_all_calls_is_relative_to_the_largest_number() -> None:
    calls = [[X, X], [X]]
    assert largest_error(calls, calls) == 0
    assert largest_error(calls, [[X, X], [X + torch.tensor([0.0, 0.0, 2.0])]]) == 0.5


def test_integers_and_truths_are_compared_too() -> None:
    assert largest_error([[torch.tensor([1, 4])]], [[torch.tensor([4, 1])]]) == 0.75
    assert largest_error([[torch.tensor([True])]], [[torch.tensor([False])]]) == 1


def test_numbers_near_zero_are_not_divided_by_themselves() -> None:
    assert largest_error([[torch.tensor([0.0])]], [[torch.tensor([1e-9])]]) < 1e-6


@pytest.mark.parametrize(
    "found", [torch.tensor([1.0, -4.0, float("nan")]), X.reshape(1, 3), X.double(), X[:2]]
)
def test_another_kind_of_output_is_refused(found: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="expected"):
        largest_error([[X]], [[found]])


def test_infinities_have_to_be_equal() -> None:
    infinite = torch.tensor([1.0, float("inf")])
    assert largest_error([[infinite]], [[infinite]]) == 0
    assert largest_error([[infinite]], [[-infinite]]) > 1e30
    assert largest_error([[infinite]], [[torch.tensor([1.0, 1e30])]]) > 1e30


def test_a_model_whose_output_shows_no_error_is_refused() -> None:
    require_signal([[X]])
    for silent in (X * 1e-4, torch.ones(5), torch.tensor([1, 2])):
        with pytest.raises(ValueError, match="give the model other weights"):
            require_signal([[silent]])

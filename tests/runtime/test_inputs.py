"""Inputs are checked against the record before anything runs."""

from __future__ import annotations

import pytest
import torch

from trt_runtime import InputError, RecordError

from .building import binding, engine_of, relu_engine


@pytest.fixture(scope="module")
def two_inputs():
    """(a[i0d0, i0d1], b[i0d1, i0d0 * 2]) -> (a, b)."""
    return engine_of(
        [("Identity", ["a"], ["c"]), ("Identity", ["b"], ["d"])],
        [
            binding("a", "float32", ["i0d0", "i0d1"], {0: (0, 8), 1: (2, 4)}),
            binding("b", "float32", ["i0d1", "i0d0 * 2"], {0: (2, 4), 1: (0, 10)}),
        ],
        [
            binding("c", "float32", ["i0d0", "i0d1"]),
            binding("d", "float32", ["i0d1", "i0d0 * 2"]),
        ],
    )


def f(*shape: int, **more) -> torch.Tensor:
    return torch.ones(*shape, **more)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([f(3, 2)], r"engine 'test': expected 2 inputs \['a', 'b'\], found 1"),
        ([f(3, 2), f(2, 6), f(1)], "expected 2 inputs .*, found 3"),
        (
            [f(3, 2, dtype=torch.float64), f(2, 6)],
            r"input 'a' \(index 0\): expected dtype torch.float32, found torch.float64; convert it",
        ),
        (
            [f(3, 2), f(12)],
            r"input 'b' \(index 1\): expected rank 2 and shape \[i0d1, i0d0 \* 2\], found rank 1 and "
            r"shape \[12\]",
        ),
        (
            [f(9, 2), f(2, 18)],
            r"'a' .*: expected 0 to 8 in dimension 0 of shape \[i0d0, i0d1\], found 9 in \[9, 2\]",
        ),
        ([f(3, 1), f(1, 6)], r"'a' .*: expected 2 to 4 in dimension 1 .*, found 1 in \[3, 1\]"),
        ([f(3, 5), f(5, 6)], r"'a' .*: expected 2 to 4 in dimension 1 .*, found 5"),
        ([f(3, 2), f(3, 6)], r"'b' .*: expected i0d1 = 2 in dimension 0 .*, found 3"),
        ([f(3, 2), f(2, 5)], r"'b' .*: expected i0d0 \* 2 = 6 in dimension 1 .*, found 5"),
        ([f(6, 2), f(2, 12)], r"'b' .*: expected 0 to 10 in dimension 1 .*, found 12"),
        ([f(3, 2).to_sparse(), f(2, 6)], "'a' .*: expected a dense tensor, found torch.sparse_coo"),
    ],
)
def test_a_wrong_input_is_refused_by_name(two_inputs, inputs, message) -> None:
    with pytest.raises(InputError, match=message):
        two_inputs(*inputs)


@pytest.mark.parametrize(("rows", "columns"), [(0, 2), (5, 4), (3, 3)])
def test_the_bounds_themselves_run(two_inputs, rows, columns) -> None:
    a, b = torch.randn(rows, columns), torch.randn(columns, rows * 2)
    c, d = two_inputs(a, b)
    assert torch.equal(c, a)
    assert torch.equal(d, b)


def test_a_static_size_is_checked() -> None:
    with pytest.raises(
        InputError, match=r"expected 8 in dimension 1 of shape \[i0d0, 8\], found 7 in \[3, 7\]"
    ):
        relu_engine()(torch.ones(3, 7))


def test_no_input_at_all_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected 1 inputs \['in_0'\], found 0"):
        relu_engine()()


def test_a_tensor_on_another_device_is_refused() -> None:
    engine = engine_of(
        [("Identity", ["a"], ["c"]), ("Identity", ["b"], ["d"])],
        [binding("a", "float32", [2], {}), binding("b", "float32", [2], {})],
        [binding("c", "float32", [2]), binding("d", "float32", [2])],
        device="cuda:0",
    )
    from trt_runtime.checking import ShapeChecker

    with pytest.raises(
        InputError, match=r"'a' .*: expected device cuda:0, found cpu; move it: .to.'cuda:0'"
    ):
        ShapeChecker(engine.info).outputs([f(2), f(2)])


def test_an_output_shape_that_no_tensor_can_have_is_the_records_fault() -> None:
    engine = engine_of(
        [("Identity", ["in"], ["out"])],
        [binding("in", "float32", ["i0d0"], {0: (0, 9)})],
        [binding("out", "float32", ["i0d0 - 3"])],
    )
    with pytest.raises(
        RecordError, match=r"output 'out': expected a size .* \(i0d0 - 3\), found -1"
    ):
        engine(torch.ones(2))


def test_division_by_zero_in_a_shape_is_an_input_error() -> None:
    engine = engine_of(
        [("Identity", ["in"], ["out"])],
        [binding("in", "float32", ["i0d0"], {0: (0, 9)})],
        [binding("out", "float32", ["9 // i0d0"])],
    )
    with pytest.raises(InputError, match=r"expected no division by zero, found one with i0d0=0"):
        engine(torch.ones(0))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: torch.stack([x, x])[:, 1:3].select(0, 0),
        lambda x: x[:1].expand(3, 8),
        lambda x: torch.cat([x, x], 1)[:, ::2],
        lambda x: torch.complex(x, -x).conj().imag,
        lambda x: x[1:],
        lambda x: x.flip(0),
    ],
    ids=["transposed", "slice", "expanded", "strided", "lazily negated", "offset", "flipped"],
)
def test_any_memory_layout_works(make) -> None:
    x = make(torch.randn(3, 8))
    assert torch.equal(relu_engine()(x)[0], x.relu())
    assert x.size(1) == 8


def test_inputs_are_left_alone() -> None:
    x = torch.randn(3, 8)
    before = x.clone()
    relu_engine()(x)
    assert torch.equal(x, before)


def stepped(**fields):
    """One input [i0d0, 3] whose first size is 4 * k + 1."""
    steps = {"multiple": [4, 1], "offset": [1, 0], **fields}
    return engine_of(
        [("Identity", ["a"], ["b"])],
        [{**binding("a", "float32", ["i0d0", 3], {0: (1, 9)}), **steps}],
        [binding("b", "float32", ["i0d0", 3])],
    )


def test_a_size_is_a_multiple_plus_an_offset() -> None:
    engine = stepped()
    for rows in (1, 5, 9):
        assert engine(f(rows, 3))[0].shape == (rows, 3)
    for rows in (2, 4, 8):
        with pytest.raises(
            InputError, match=rf"input 'a' .*a multiple of 4 plus 1 .* found {rows}"
        ):
            engine(f(rows, 3))
    assert engine.info.to_mapping()["inputs"][0]["multiple"] == [4, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"multiple": None},
        {"offset": None},
        {"multiple": [4]},
        {"multiple": [0, 1], "offset": [0, 0]},
        {"offset": [4, 0]},
        {"multiple": [4, 3]},
        {"offset": [-1, 0]},
        {"multiple": [True, 1]},
    ],
)
def test_multiples_that_cannot_be_meant_are_refused(fields) -> None:
    with pytest.raises(RecordError, match=r"'(multiple|offset)'"):
        stepped(**fields)

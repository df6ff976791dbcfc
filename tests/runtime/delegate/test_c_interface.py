"""The delegate as ExecuTorch's side sees it: status numbers, messages, who owns what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor

from trt_runtime.delegate.engine import register
from trt_runtime.executors.bound import Bound

from ..building import (
    RELU_PLAN,
    binding,
    model,
    plan_of,
    record_of,
    relu_record,
    written_aligned,
)
from .c_interface import FAILED, INCOMPATIBLE, INVALID_ARGUMENT, OK, Delegate
from .programs import frame, payload_of

PAYLOAD = payload_of(RELU_PLAN, relu_record())


@pytest.fixture(autouse=True)
def engines() -> None:
    register()


@pytest.fixture
def delegate() -> Iterator[Delegate]:
    delegate = Delegate(PAYLOAD)
    assert delegate.status == OK, delegate.message
    yield delegate
    delegate.close()


def pair(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 8), torch.zeros(size, 8)


def test_it_runs(delegate: Delegate) -> None:
    for size in (1, 16, 3):
        x, y = pair(size)
        assert delegate.execute([x, y]) == OK, delegate.message
        assert torch.equal(y, x.relu())


def test_the_payload_is_given_back_once_when_nothing_reads_it() -> None:
    delegate = Delegate(PAYLOAD)
    assert delegate.status == OK
    assert delegate.released == 0  # the executor owns its plan, which may be verified later
    delegate.close()
    assert delegate.released == 1


def table_payload() -> bytes:
    inputs = [binding("index", "int64", [2], {})]
    outputs = [binding("rows", "float32", [2, 64])]
    table = numpy_helper.from_array(np.arange(4096, dtype=np.float32).reshape(64, 64), "table")
    proto = model([("Gather", ["table", "index"], ["rows"])], inputs, outputs, [table])
    return payload_of(plan_of(written_aligned(proto)), record_of(inputs, outputs))


def test_a_payload_whose_weights_are_read_where_they_lie_is_given_back_at_the_end() -> None:
    delegate = Delegate(table_payload())
    assert (delegate.status, delegate.released) == (OK, 0)
    rows = torch.empty(2, 64)
    assert delegate.execute([torch.tensor([63, 0]), rows]) == OK
    assert torch.equal(rows.flatten(), torch.tensor([*range(4032, 4096), *range(64)]).float())
    delegate.close()
    assert delegate.released == 1


def test_what_onnxruntime_finds_wrong_is_told_with_the_engine_and_its_shapes() -> None:
    delegate = Delegate(table_payload())
    assert delegate.execute([torch.tensor([1, 64]), torch.empty(2, 64)]) == FAILED
    assert delegate.message.startswith(
        "engine 'delegate': expected ONNX Runtime to run it on inputs"
    )
    assert "[[2]] into outputs of [[2, 64]], found" in delegate.message
    assert "idx=64 must be within the inclusive range" in delegate.message
    delegate.close()


@pytest.mark.parametrize("payload", [b"", PAYLOAD[:40], frame(b"{}", RELU_PLAN)])
def test_a_bad_payload_is_given_back_too(payload: bytes) -> None:
    delegate = Delegate(payload)
    assert (delegate.status, delegate.released) == (INCOMPATIBLE, 1)
    assert delegate.message.startswith("delegate payload: ")


@pytest.mark.parametrize("size", [0, 1, 2, 20])
def test_a_message_is_cut_to_its_room(size: int) -> None:
    delegate = Delegate(b"", message_size=size)
    assert delegate.status == INCOMPATIBLE
    assert delegate.message == "delegate payload: expected a header"[: max(size - 1, 0)]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_arguments(delegate: Delegate, count: int) -> None:
    assert delegate.execute([torch.zeros(2, 8)] * count) == INVALID_ARGUMENT
    assert f"expected 1 inputs and 1 outputs, found {count} arguments" in delegate.message


@pytest.mark.parametrize(
    ("x", "y", "dtypes", "message"),
    [
        (torch.zeros(2, 9), torch.zeros(2, 8), None, r"expected 8 in dimension 1"),
        (torch.zeros(17, 8), torch.zeros(17, 8), None, r"expected 1 to 16 in dimension 0"),
        (torch.zeros(0, 8), torch.zeros(0, 8), None, r"expected 1 to 16 in dimension 0"),
        (torch.zeros(16), torch.zeros(2, 8), None, r"expected rank 2"),
        (torch.zeros(1, 2, 8), torch.zeros(2, 8), None, r"expected rank 2"),
        (torch.tensor(1.0), torch.zeros(2, 8), None, r"expected rank 2"),
        (torch.zeros(2, 8).half(), torch.zeros(2, 8), None, r"expected dtype torch.float32"),
        (torch.zeros(2, 8), torch.zeros(2, 8).double(), None, r"output 'out_0': expected dtype"),
        (torch.zeros(2, 8), torch.zeros(16), None, r"output 0: expected rank 2, found 1"),
        (torch.zeros(2, 8), torch.zeros(2, 8), [99, 6], r"dtype number 99"),
        (torch.zeros(2, 8), torch.zeros(2, 8), [6, -1], r"dtype number -1"),
    ],
)
def test_arguments_that_are_not_the_engines(
    delegate: Delegate, x: Tensor, y: Tensor, dtypes: list[int] | None, message: str
) -> None:
    for _ in range(2):
        assert delegate.execute([x, y], dtypes=dtypes) == INVALID_ARGUMENT
        assert message in delegate.message
        assert not y.any()
    x, y = pair(2)
    assert delegate.execute([x, y]) == OK
    assert torch.equal(y, x.relu())


def test_an_output_without_room(delegate: Delegate) -> None:
    assert delegate.execute(pair(2), resize=lambda index, sizes: None) == INVALID_ARGUMENT
    assert "argument 1: expected room for an output of the sizes [2, 8]" in delegate.message


def test_outputs_are_resized_to_what_follows_from_the_inputs(delegate: Delegate) -> None:
    asked = []
    room = torch.zeros(16, 8)

    def resize(index: int, sizes: list[int]) -> int:
        asked.append((index, sizes))
        return room.data_ptr()

    x = torch.randn(5, 8)
    assert delegate.execute([x, room[:1]], resize) == OK
    assert asked == [(1, [5, 8])]
    assert torch.equal(room[:5], x.relu())
    assert not room[5:].any()


def test_an_output_that_moves_is_followed_and_what_was_bound_before_is_not_used(
    delegate: Delegate,
) -> None:
    """The memory that an output had before it moved may be an output's again, and then it is written there."""
    x, small, large = torch.randn(5, 8), torch.zeros(5, 8), torch.zeros(16, 8)
    assert delegate.execute([x, small[:1]], lambda index, sizes: large.data_ptr()) == OK
    assert torch.equal(large[:5], x.relu())
    large.zero_()
    assert delegate.execute([x, small]) == OK
    assert torch.equal(small, x.relu())
    assert not large.any()


def test_an_engine_that_fails_when_it_runs(delegate: Delegate, monkeypatch) -> None:
    from trt_runtime.delegate.engine import DelegateEngine

    def bind(self: DelegateEngine, inputs: object, outputs: object) -> object:
        def run() -> None:
            raise KeyError("broken \N{SNOWMAN} \x1b[31m")

        return Bound(run)

    monkeypatch.setattr(DelegateEngine, "bind", bind)
    assert delegate.execute(pair(4)) == FAILED
    assert delegate.message.startswith("KeyError: ")
    monkeypatch.undo()
    x, y = pair(3)
    assert delegate.execute([x, y]) == OK

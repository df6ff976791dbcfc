"""Tensors whose memory does not hold their values as they are: read right, or a typed error."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import trt_runtime
from trt_runtime import ExecutionError, InputError

from .programs import scaling_pte

X = torch.arange(16, dtype=torch.float32).reshape(2, 8) + 1


@pytest.fixture
def program(tmp_path: Path) -> trt_runtime.Program:
    return trt_runtime.load(scaling_pte(tmp_path / "model.pte"))


class Named(Tensor):
    """A subclass that is nothing but another name."""


class Loud(Tensor):
    """A subclass whose functions do not do what torch's do."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        raise AssertionError


def resized(size: int, *, transposed: bool = False) -> Tensor:
    tensor = X.clone()
    seen = tensor.view(8, 2).T if transposed else tensor
    tensor.untyped_storage().resize_(size)
    return seen


@pytest.mark.parametrize(
    "x",
    [
        torch.complex(X, X).conj().imag,
        torch._neg_view(X),
        torch._neg_view(X.T.contiguous().T),
        nn.Parameter(X),
        X.clone().requires_grad_(),
        X.as_subclass(Named),
        nn.Parameter(X.T.contiguous().T),
    ],
    ids=["imaginary part of a conjugate", "negative", "negative and transposed", "parameter", "requires grad",
         "subclass", "transposed parameter"],
)  # fmt: skip
def test_values_are_read_and_not_memory(program: trt_runtime.Program, x: Tensor) -> None:
    expected = torch.tensor(x.detach().tolist()) * 2
    (found,) = program.run([x])
    assert torch.equal(found, expected)
    assert type(found) is Tensor


def test_functions_of_a_subclass_are_not_called(program: trt_runtime.Program) -> None:
    with torch._C.DisableTorchFunctionSubclass():
        x = X.as_subclass(Loud)
    assert torch.equal(program.run([x])[0], 2 * X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: X.to_sparse(), "expected a dense tensor, found torch.sparse_coo; .*to_dense"),
        (lambda: X.to_sparse_csr(), "expected a dense tensor, found torch.sparse_csr"),
        (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.quint8), "quantized torch.quint8"),
        (lambda: torch.nested.nested_tensor([X, X]), "nested"),
        (lambda: torch.nested.nested_tensor([X, X], layout=torch.jagged), "NestedTensor"),
        (lambda: X.to("meta"), "found one on meta; give one that has values"),
        (lambda: FakeTensorMode().from_tensor(X), "FakeTensor; convert it"),
        (lambda: resized(0), "expected memory of 64 bytes or more behind the tensor, found 0"),
        (lambda: resized(60), "expected memory of 64 bytes or more behind the tensor, found 60"),
        (lambda: resized(60, transposed=True), "expected memory of 64 bytes .* found 60"),
    ],
)
def test_what_has_no_plain_memory_is_refused(
    program: trt_runtime.Program, make: Any, message: str
) -> None:
    with pytest.raises(InputError, match=rf"input 0 \(.*\): .*{message}"):
        program.run([make()])
    assert torch.equal(program.run([X])[0], 2 * X)


@pytest.mark.parametrize("inputs", [None, X, X[:1], "x", {"x": X}, iter([X]), 3])
def test_what_is_no_list_is_refused(program: trt_runtime.Program, inputs: Any) -> None:
    with pytest.raises(InputError, match=r"expected a list of inputs, found .*pass \[x\]"):
        program.run(inputs)


def test_a_call_from_within_a_call_is_refused(
    program: trt_runtime.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler's, which Python calls wherever the thread is."""
    program.run([X])
    method = program._methods["forward"]
    execute = method._execute
    caught: list[Exception] = []

    def interrupted(inputs: Any) -> Any:
        try:
            program.run([X])
        except ExecutionError as error:
            caught.append(error)
        return execute(inputs)

    monkeypatch.setattr(method, "_execute", interrupted)
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.extend(program.run([X])), daemon=True)
    thread.start()
    thread.join(20)
    assert torch.equal(found[0], 2 * X)
    assert "expected one call at a time" in str(caught[0])

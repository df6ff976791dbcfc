"""Programs with a loop: verification must not make it endless."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, export

from export.compiling.whole import compiled
from trt_export.compiling.verification import samples


class _Counted(nn.Module):
    """Halves its input as often as another input says."""

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        def goes_on(step: Tensor, value: Tensor) -> Tensor:
            return step != steps  # does not end for steps below 0

        def body(step: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            return step + 1, value / 2

        start: tuple[Any, ...] = (torch.zeros((), dtype=torch.int64), (x @ x.mT).relu())
        result: Tensor = while_loop(goes_on, body, start)[1].tanh()  # type: ignore[no-untyped-call]
        return result


def test_a_loop_is_run_on_the_values_of_the_examples_only(monkeypatch: Any) -> None:
    names: list[str] = []

    def noted(*arguments: Any) -> Any:
        for sample in samples.samples(*arguments):
            names.append(sample.name)
            yield sample

    monkeypatch.setattr("trt_export.compiling.verification.verifier.samples", noted)
    x = torch.randn(2, 3, 4)
    steps = torch.tensor(3)
    dynamic = ({0: Dim("batch", min=1, max=4)}, None)
    module, report = compiled(export(_Counted(), (x, steps), dynamic_shapes=dynamic))
    assert set(names) == {"example inputs", "smallest sizes", "sizes up to twice the usual"}
    assert [node.operator for node in report.left_in_pytorch] == ["while_loop"]
    torch.testing.assert_close(module(x, steps), _Counted()(x, steps))

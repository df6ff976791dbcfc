"""The work of compiling grows with the kinds of operators, and not with the square of their number."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir
import pytest
import torch
from onnxscript.rewriter import RewriteRule
from torch import Tensor, nn
from torch.export import ExportedProgram

from models import FAMILIES, Family
from trt_export.compiling import compile, torch_onnx
from trt_export.compiling.decomposition.decompose import by_nodes
from trt_export.compiling.decomposition.templates import NotAlikeError, Templates
from trt_export.compiling.simplify import simplify


class Layers(nn.Module):
    """Alike layers with a cache that is written in place, a composite operator and one that torch.onnx lacks."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))
        for number in range(count):
            self.register_buffer(f"cache_{number}", torch.zeros(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            cache = getattr(self, f"cache_{number}")
            cache.index_copy_(0, torch.arange(2), layer(x).reshape(-1, 8)[:2])
            x = x + cache.mean(0).to(torch.float32).relu_()
        return x


def _program(count: int) -> ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(Layers(count).eval(), (torch.randn(2, 8),))


def _templates() -> Templates:
    return Templates(next(torch_onnx.decomposition_tables()))


def _operators(program: ExportedProgram) -> Counter[str]:
    return Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")


def test_torch_is_asked_once_for_all_layers() -> None:
    few, many = _templates(), _templates()
    with torch.no_grad():
        by_nodes(_program(2), few)
        by_nodes(_program(12), many)
    assert few.asked == many.asked


def test_operators_that_stay_whole_are_not_asked_about_again() -> None:
    templates = _templates()
    with torch.no_grad():
        by_nodes(_program(2), templates)
        first, templates.asked = templates.asked, 0
        by_nodes(_program(2), templates)
    assert templates.asked < first


def test_whole_programs_are_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = ExportedProgram.run_decompositions

    def counted(self: ExportedProgram, *args: object, **options: object) -> ExportedProgram:
        sizes.append(len(self.graph.nodes))
        return original(self, *args, **options)  # type: ignore[arg-type]

    program = _program(12)
    monkeypatch.setattr(ExportedProgram, "run_decompositions", counted)
    compile(program, verify=False)
    assert max(sizes) < len(program.graph.nodes) / 2


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if not f.stays & {"aten.nonzero.default"}], ids=str
)
def test_nodes_give_what_the_whole_gives(family: Family) -> None:
    program = family.export(family.make())
    table = next(torch_onnx.decomposition_tables())
    with torch.no_grad():
        whole, ours = program.run_decompositions(dict(table)), by_nodes(program, Templates(table))
    assert _operators(ours) == _operators(whole)
    for one, other in (
        (ours.graph_signature.output_specs, whole.graph_signature.output_specs),
        (ours.graph_signature.input_specs, whole.graph_signature.input_specs),
    ):
        assert [(spec.kind, spec.target) for spec in one] == [(s.kind, s.target) for s in other]
    assert ours.verifier.dialect == whole.verifier.dialect


class ViewAfterChange(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        row = y[0]
        y.mul_(2)
        return row + y


class ChangedView(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.state[0].add_(x[0])
        return self.state * 2


class ReturnsWhatItChanges(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.count.add_(x[0])


@pytest.mark.parametrize("module", [ViewAfterChange, ChangedView, ReturnsWhatItChanges])
def test_shared_memory_is_left_to_torch(module: type[nn.Module]) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    program = torch.export.export(module().eval(), (x,))
    with pytest.raises(NotAlikeError), torch.no_grad():
        by_nodes(program, _templates())
    compiled = compile(program).module()
    expected = module().eval()
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected(x))


def test_rules_are_tried_only_where_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: Counter[int] = Counter()
    original = RewriteRule.try_rewrite

    def counted(self: RewriteRule, model: ir.Model, graph: ir.Graph, node: ir.Node) -> object:
        tried[count] += 1
        return original(self, model, graph, node)

    monkeypatch.setattr(RewriteRule, "try_rewrite", counted)
    for count in (2, 4, 8):
        compile(_program(count), verify=False)
    assert tried[8] - tried[4] == 2 * (tried[4] - tried[2])
    assert tried[8] < 8 * len(_program(8).graph.nodes)


@pytest.mark.parametrize(
    ("operator", "number", "stays"),
    [
        ("Mul", 1.0, False),
        ("Mul", 1.000001, True),
        ("Div", 1.0, False),
        ("Sub", 0.0, False),
        ("Add", 1e-12, True),
        ("Add", 0.0, True),  # -0.0 + 0 is 0.0
    ],
)
def test_neutral_numbers_are_exact(operator: str, number: float, stays: bool) -> None:
    entry = ir.val("x", ir.DataType.FLOAT, [2])
    constant = ir.node("Constant", [], {"value": ir.tensor(number, dtype=ir.DataType.FLOAT)})
    node = ir.node(operator, [entry, constant.outputs[0]])
    last = ir.node("Exp", [node.outputs[0]])
    last.outputs[0].name = "y"
    last.outputs[0].type, last.outputs[0].shape = entry.type, entry.shape
    graph = ir.Graph(
        [entry], last.outputs, nodes=[constant, node, last], opset_imports={"": 20}, name="main"
    )
    model = ir.Model(graph, ir_version=10)
    simplify(model)
    assert [each.op_type for each in model.graph] == ([operator] if stays else []) + ["Exp"]

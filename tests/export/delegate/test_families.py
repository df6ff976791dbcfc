"""Every model family from the compiler through lowering: the same numbers, and every engine in the file."""

import copy
import io
import struct
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from torch.export import ExportedProgram

import trt_export
from export.preparing import prepare
from export.programs import plan_of
from models import FAMILIES, Family
from trt_export.engines.find import find_calls

pytestmark = pytest.mark.filterwarnings("ignore:Mutation on a buffer in the model:UserWarning")

_compiled: dict[str, ExportedProgram] = {}


def compiled(family: Family) -> ExportedProgram:
    """The family's program with onnxruntime engines, compiled once."""
    if family.name not in _compiled:
        program = family.export(family.make())
        _compiled[family.name] = trt_export.compile(program, on_report=lambda report: None)
    return _compiled[family.name]


def flat(results: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(results)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_rewritten_program_computes_what_the_compiled_one_computes(
    family: Family, running_op: None
) -> None:
    program = compiled(family)
    expected = copy.deepcopy(program).module()
    prepared = prepare({"forward": program})["forward"]  # which holds the plans
    found = prepared.module()
    for sizes in (family.sizes, *family.other_sizes):
        for _ in range(family.steps):
            args, kwargs = family.inputs(*sizes)
            torch.manual_seed(7)
            wanted = flat(expected(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
            torch.manual_seed(7)
            given = flat(found(*args, **kwargs))
            assert len(wanted) == len(given)
            for one, other in zip(wanted, given, strict=True):
                if isinstance(one, torch.Tensor):
                    torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
                else:
                    assert other == one


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_every_engine_is_a_delegate(family: Family) -> None:
    program = compiled(family)
    plans = [plan_of(call.engine) for call in find_calls(program)]
    assert plans
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for candidate in (program, torch.export.load(file)):
        edge = trt_export.to_edge(candidate, format="tr01")
        pte = deserialize_pte_binary(edge.to_executorch().buffer).program
        (method,) = pte.execution_plan
        found = []
        for delegate in method.delegates:
            blob = pte.backend_delegate_data[delegate.processed.index].data
            _, _, _, start, size, _ = struct.unpack_from("<4sIIIQ8s", blob)
            found.append(blob[start : start + size])
        assert found == plans
        kernels = {operator.name for operator in method.operators}
        mutated = bool(program.graph_signature.buffers_to_mutate)
        assert ("aten::copy_" in kernels) == mutated

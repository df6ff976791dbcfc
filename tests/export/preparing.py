"""The passes that make programs ready for ExecuTorch, without what comes after them."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from trt_export.passes.pipeline import Pipeline
from trt_export.passes.prepare import PREPARE, Lowering


def prepare(programs: Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    """Copies of the programs that ExecuTorch can lower; each holds the stored plans of all, as a lowering does."""
    state = Lowering(programs)
    Pipeline(PREPARE).run(state)
    for program in state.prepared.values():
        program.held_plans = state.plans
    return state.prepared

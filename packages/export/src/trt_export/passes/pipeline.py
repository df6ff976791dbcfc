"""The order of the passes: find, read, validate everything, and only then rewrite."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from trt_export.engines.find import EngineCall, find_calls
from trt_export.engines.read import EngineState, read_engine
from trt_export.errors import LoweringError, NoEngineError, TrtExportError
from trt_export.passes.rewrite import rewrite
from trt_export.passes.validate import validate_call, validate_constants


def prepare(programs: Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    """Copies of the programs that ExecuTorch can lower; the sources are not changed.

    All methods are validated before the first is rewritten, and each engine object is read once, however many
    calls and methods share it.

    Args:
        programs: programs by method name. A method may be without engines, not all of them.

    Raises:
        NoEngineError: no program calls an engine.
        LoweringError, EngineRecordError, PlanError: as the passes say, with the method's name.
    """
    calls: dict[str, tuple[EngineCall, ...]] = {}
    states: dict[int, EngineState] = {}
    for method, program in programs.items():
        if not isinstance(program, ExportedProgram):
            raise LoweringError(
                f"method {method!r} is a {type(program).__name__}, expected an ExportedProgram:"
                " torch.export.export(...), then trt_export.compile(...)"
            )
        calls[method] = find_calls(program)
    if not any(calls.values()):
        raise NoEngineError(
            f"no engine call in {', '.join(map(repr, programs)) or 'no method'}: compile a program first"
            " (trt_export.compile); ExecuTorch's own to_edge_transform_and_lower is for programs without engines"
        )
    for method, program in programs.items():
        validate_constants(method, program)
        for call in calls[method]:
            try:
                if call.identity not in states:
                    states[call.identity] = read_engine(call.engine)
                validate_call(call, states[call.identity])
            except TrtExportError as error:
                raise type(error)(f"method {method!r}, node {call.node.name!r}: {error}") from error
    return {method: rewrite(program, calls[method], states) for method, program in programs.items()}

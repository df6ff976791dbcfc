"""The work of `trt-export build`: a `.pt2` in, a `.pte` out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from trt_export.errors import FileFormatError, TrtExportError, UsageError
from trt_export.files.atomic import check_writable, write_files
from trt_export.files.head import check_readable, read_head
from trt_export.files.pt2 import FOREIGN_CLASS, read_pt2
from trt_export.files.pte import is_pte
from trt_export.formats import Format
from trt_export.phases import Recorder, Span, seconds_by_phase, write_trace
from trt_export.report_lines import phase_lines, size_text, verification_lines

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from trt_export.compiling import CompileReport

DEFAULT_BUILDER = "onnxruntime"

Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class BuildOrder:
    """What to build. `dynamic` is as `trt_export.compile` takes it; None for `builder` is the default one."""

    program: Path
    output: Path
    builder: str | None = None
    compute_capabilities: Sequence[str] | None = None
    dynamic: Mapping[str, tuple[int, int, int]] | None = None
    save_program: Path | None = None
    format: Format | None = None
    data_file: str | None = None
    trace: Path | None = None
    verify: bool | float = True


@dataclass(frozen=True)
class BuildResult:
    """What was built. `builder` is None if the program held its engines already.

    `verified` and `verification` are those of `CompileReport`; None if nothing was compiled.
    """

    files: tuple[dict[str, Any], ...]
    builder: str | None
    engines: tuple[dict[str, Any], ...]
    left_in_pytorch: tuple[dict[str, str], ...]
    differences: dict[str, str]
    seconds: dict[str, float]
    phases: tuple[Span, ...]
    verified: bool | None = None
    verification: dict[str, Any] | None = None

    def lines(self) -> list[str]:
        """The same for people."""
        lines = [f"wrote {file['path']} ({size_text(file['size'])})" for file in self.files]
        for engine in self.engines:
            operators = sum(engine["operators"].values())
            lines.append(
                f"engine {engine['name']}: {self.builder}, {engine['device']},"
                f" plan of {size_text(engine['plan_size'])}, {operators} operators"
            )
            lines += verification_lines(engine["name"], engine["verification"])
        for node in self.left_in_pytorch:
            lines.append(f"not in an engine: {node['name']} ({node['operator']}): {node['reason']}")
        for operator, difference in self.differences.items():
            lines.append(f"differs from PyTorch: {operator}: {difference}")
        times = ", ".join(
            f"{phase} {seconds:.1f}" for phase, seconds in self.seconds.items() if seconds >= 0.05
        )
        return [*lines, *phase_lines(self.phases), f"seconds: {times}"]


def parse_dynamic(options: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """`NAME=MIN:OPT:MAX` options as a mapping.

    Raises:
        UsageError: an option of another form, or a name twice.
    """
    result: dict[str, tuple[int, int, int]] = {}
    for option in options:
        name, equals, text = option.rpartition("=")
        sizes = text.split(":")
        if not (name and equals and len(sizes) == 3 and all(size.isdecimal() for size in sizes)):
            raise UsageError(
                f"--dynamic {option!r}: expected NAME=MIN:OPT:MAX, such as --dynamic tokens.1=1:64:256"
            )
        if name in result:
            raise UsageError(f"--dynamic names {name!r} twice")
        result[name] = (int(sizes[0]), int(sizes[1]), int(sizes[2]))
    return result


def build(order: BuildOrder, step: Step) -> BuildResult:
    """Compile, lower, write. What can be wrong with the files is found out before the work begins.

    Args:
        order: what to build.
        step: called with a phase, the steps of it done, and the steps that there are.

    Raises:
        UsageError, OutputFileError: the arguments.
        FileFormatError: the program file.
        TrtExportError: what compiling and lowering raise.
    """
    _check_files(order)
    archive = read_pt2(order.program)
    has_engines = any(program.calls or program.engines for program in archive.programs)
    if has_engines and (order.builder or order.compute_capabilities or order.dynamic):
        raise UsageError(
            f"{order.program} holds engines already and is lowered as it is: leave out --builder,"
            " --compute-capability and --dynamic, or give the program from before compiling"
        )
    recorder = Recorder(step)
    report: CompileReport | None = None
    builder = None
    if not has_engines:
        from trt_export.builders import get_builder

        # Before the imports and the file, which take seconds.
        builder = get_builder(order.builder or DEFAULT_BUILDER, order.compute_capabilities)
    recorder.step("load")
    if any(engine.type == FOREIGN_CLASS for engine in archive.engines):
        _load_foreign_class(order.program)
    program = load_program(order.program)
    if builder is not None:
        from trt_export.compiling import compile

        reports: list[CompileReport] = []
        program = compile(
            program,
            builder=builder,
            dynamic=order.dynamic,
            on_report=reports.append,
            on_progress=recorder.step,
            verify=order.verify,
        )
        (report,) = reports
    recorder.step("import executorch")
    from trt_export.edge import pte_writers, to_edge

    edge = to_edge(
        program, format=order.format, data_file=order.data_file, on_progress=recorder.step
    )
    recorder.step("emit")
    writers = pte_writers(edge, order.output)
    _check_outputs(order, writers)
    recorder.step("write")
    if order.save_program is not None:
        writers[order.save_program] = _program_writer(program)
    files = write_files(writers)
    spans = recorder.finish()
    if order.trace is not None:
        files += write_files({order.trace: lambda file: write_trace(spans, file)})
    return BuildResult(
        files=tuple({"path": str(path), "size": path.stat().st_size} for path in files),
        builder=report.builder if report else None,
        engines=tuple(
            {
                "name": engine.name,
                "device": engine.device,
                "plan_size": engine.plan_size,
                "operators": dict(engine.operators),
                "verification": {
                    "verified": engine.verification.verified,
                    **asdict(engine.verification),
                },
            }
            for engine in (report.engines if report else ())
        ),
        left_in_pytorch=tuple(
            {"name": node.name, "operator": node.operator, "reason": node.reason}
            for node in (report.left_in_pytorch if report else ())
        ),
        differences=dict(report.differences) if report else {},
        seconds={phase: round(value, 3) for phase, value in seconds_by_phase(spans).items()},
        phases=spans if order.trace is not None else (),
        verified=report.verified if report else None,
        verification=asdict(report.verification) if report else None,
    )


def load_program(path: Path) -> "ExportedProgram":
    """`torch.export.load`, with plans mapped where the runtime can, and with torch's many errors as one.

    Raises:
        FileFormatError: torch cannot load it.
    """
    import torch

    import trt_runtime  # Without it, torch does not know the class of an engine.

    # From 0.5 on. What earlier ones can read has its plans as text: there is nothing to map.
    load: Callable[[Path], ExportedProgram] = getattr(
        trt_runtime, "load_program", torch.export.load
    )
    try:
        return load(path)
    except MemoryError:
        raise
    except Exception as error:  # torch raises whatever its parts raise on a damaged file.
        raise FileFormatError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _check_files(order: BuildOrder) -> None:
    outputs = [path for path in (order.output, order.save_program, order.trace) if path is not None]
    check_readable(order.program)
    resolved = [path.resolve() for path in (order.program, *outputs)]
    if len(set(resolved)) != len(resolved):
        raise UsageError(f"{order.program} and the files to write must be different files")
    for path in outputs:
        check_writable(path)
    head = read_head(order.program)
    if is_pte(head):
        raise FileFormatError(
            f"{order.program} is a .pte, which is lowered already: `build` takes what torch.export.save wrote"
            " (.pt2); `trt-export info` tells what is in it"
        )
    if not head.startswith(b"PK"):
        raise FileFormatError(
            f"{order.program} is not a .pt2: it begins with {head[:8]!r}; write one with"
            " torch.export.save(torch.export.export(model, inputs), path)"
        )


def _check_outputs(order: BuildOrder, writers: Mapping[Path, object]) -> None:
    """A data file has a name of its own, which is known only now."""
    others = {path.resolve() for path in (order.program, order.save_program, order.trace) if path}
    for path in writers:
        if path.resolve() in others:
            raise UsageError(f"the data file {path} must be another file than those that are named")


def _load_foreign_class(path: Path) -> None:
    """Have torch know the class of torch-tensorrt's engines, as its import does.

    Raises:
        FileFormatError: it cannot be imported.
    """
    import torch

    try:
        torch.classes.tensorrt.Engine  # noqa: B018  Raises if nobody has registered it.
    except RuntimeError:
        try:
            import_module("torch_tensorrt")
        except Exception as error:  # A native package that does not fit raises anything.
            raise FileFormatError(
                f"{path} holds engines of torch-tensorrt, which must be there to load them"
                f" ({type(error).__name__}: {error}): pip install torch-tensorrt"
            ) from error


def _program_writer(program: "ExportedProgram") -> Callable[[BinaryIO], object]:
    import torch

    import trt_runtime

    # From 0.5 on without a copy of the plans.
    save: Callable[[ExportedProgram, BinaryIO], object] = getattr(
        trt_runtime, "save_program", torch.export.save
    )

    def write(file: BinaryIO) -> None:
        try:
            save(program, file)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise TrtExportError(
                f"the program cannot be saved: {type(error).__name__}: {error}"
            ) from error

    return write

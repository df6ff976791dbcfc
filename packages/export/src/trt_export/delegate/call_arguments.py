"""Checks the arguments of `to_edge` and `save`; ExecuTorch fails on wrong ones where nothing says which it was."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
)
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.partitioner import Partitioner

from trt_export.arguments import check_argument, check_callback
from trt_export.delegate.backend import TensorRTBackend, TrtRuntimeBackend
from trt_export.errors import LoweringError
from trt_export.hints import hint


def check_to_edge(
    programs: Any,
    *,
    partitioners: Any,
    transform_passes: Any,
    constant_methods: Any,
    compile_config: Any,
    format: Any,
    data_file: Any,
    on_progress: Any,
) -> None:
    """Check what `to_edge` was given; what the programs are is checked later.

    Raises:
        ArgumentError: an argument of a wrong type.
        LoweringError: a data file's name that is none, or a backend that another package registered under our name.
    """
    if isinstance(programs, Mapping):
        for name in programs:
            check_argument("programs", name, isinstance(name, str), "names of methods (str)")
    _check_each("partitioners", partitioners, _are_partitioners, "a list of partitioners")
    is_pass = callable(transform_passes)  # ExecuTorch's PassManager
    if not is_pass:
        _check_each("transform_passes", transform_passes, _are_passes, "a list of passes")
    if constant_methods is not None:
        expected = "a mapping of names (str) to values, or None"
        is_mapping = isinstance(constant_methods, Mapping)
        check_argument("constant_methods", constant_methods, is_mapping, expected)
        for name in constant_methods:
            check_argument("constant_methods", name, isinstance(name, str), expected)
    is_config = compile_config is None or isinstance(compile_config, EdgeCompileConfig)
    check_argument("compile_config", compile_config, is_config, "an EdgeCompileConfig or None")
    check_argument("format", format, format is None or isinstance(format, str), "a name or None")
    check_callback("on_progress", on_progress)
    _check_data_file(data_file)
    _check_backends()


def check_save(manager: Any, config: Any, shared_buffers: Any) -> None:
    """Check what `save` was given; the names of shared buffers are checked later.

    Raises:
        ArgumentError: an argument of a wrong type.
    """
    check_argument(
        "manager",
        manager,
        isinstance(manager, EdgeProgramManager | ExecutorchProgramManager),
        "what to_edge returned, or what its to_executorch returned",
    )
    is_config = config is None or isinstance(config, ExecutorchBackendConfig)
    check_argument("config", config, is_config, "an ExecutorchBackendConfig or None")
    check_argument(
        "shared_buffers",
        shared_buffers,
        shared_buffers is None or isinstance(shared_buffers, bool | Collection),
        "a list of names, True or False",
    )


def _check_each(name: str, value: Any, is_right: Any, expected: str) -> None:
    """Check a list, or a mapping of methods to lists."""
    expected = f"{expected}, also by method name, or None"
    if isinstance(value, Mapping):
        for method, items in value.items():
            check_argument(name, method, isinstance(method, str), expected)
            check_argument(f"{name}[{method!r}]", items, is_right(items), expected)
    else:
        check_argument(name, value, value is None or is_right(value), expected)


def _are_partitioners(items: Any) -> bool:
    return _is_list(items) and all(isinstance(item, Partitioner) for item in items)


def _are_passes(items: Any) -> bool:
    return _is_list(items) and all(map(callable, items))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _check_data_file(name: Any) -> None:
    """The name becomes a file's, and goes into the `.pte`."""
    if name is not None and (
        not isinstance(name, str)
        or name in ("", "..")
        or Path(name).name != name
        or not name.isprintable()
    ):
        raise LoweringError(
            f"{hint('data_file', '--data-file')}: expected the name of a file without folder and ending, such as"
            f" 'plans', found {name!r:.80}"
        )


def _check_backends() -> None:
    """ExecuTorch takes the first backend class of a name; another package may have brought one."""
    for own in (TrtRuntimeBackend, TensorRTBackend):
        for cls in BackendDetails.__subclasses__():
            if cls.__name__ == own.__name__ and cls is not own:
                raise LoweringError(
                    f"{cls.__module__} has a backend {own.__name__!r} too, and ExecuTorch cannot tell them apart:"
                    " lower in a process that does not import it"
                )

"""Inputs and outputs of programs as `.npz` files."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .errors import UsageError


def read_arrays(path: Path) -> list[torch.Tensor]:
    """Read the arrays of an `.npz`, in the order of the file.

    Raises:
        UsageError: it is no `.npz`, or holds what no tensor can.

    """
    if path.is_file() and not zipfile.is_zipfile(path):
        raise UsageError(
            f"{path}: expected an .npz, found another kind of file; write it with numpy.savez"
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            return [_tensor(path, name, archive[name]) for name in archive.files]
    except FileNotFoundError as error:
        raise UsageError(f"{path}: expected a file, found none") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{path}: expected an .npz of numbers, found something else ({error}); write it with numpy.savez"
        ) from error


def write_arrays(path: Path, outputs: Sequence[Any]) -> None:
    """Write outputs as ``output_0``, ``output_1``, ...: the whole file or none.

    bfloat16, which numpy has not, is written as float32.

    Raises:
        OSError: the place cannot be written; a file that was there is as it was.

    """
    arrays = {f"output_{index}": _array(output) for index, output in enumerate(outputs)}
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # a temporary file is its owner's alone
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _tensor(path: Path, name: str, array: np.ndarray[Any, Any]) -> torch.Tensor:
    try:
        return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    except TypeError as error:
        raise UsageError(
            f"{path}, array {name!r}: expected numbers, found {array.dtype}"
        ) from error


def _array(output: Any) -> np.ndarray[Any, Any]:
    if not isinstance(output, torch.Tensor):
        return np.asarray(output)
    return (output.float() if output.dtype == torch.bfloat16 else output).numpy()

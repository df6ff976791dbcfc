"""Inputs and outputs of programs as `.npz` files."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .errors import UsageError
from .files import write_file


def read_arrays(path: Path) -> list[torch.Tensor]:
    """Read the arrays of an `.npz`, in the order of the file.

    Raises:
        UsageError: it cannot be read, is no `.npz`, or holds what no tensor can.

    """
    try:
        if not path.is_file():
            raise UsageError(
                f"{path}: expected a regular file, found {'another kind' if path.exists() else 'none'}; "
                "write one with numpy.savez"
            )
        if not zipfile.is_zipfile(path):
            raise UsageError(
                f"{path}: expected an .npz, found another kind of file; write it with numpy.savez"
            )
        with np.load(path, allow_pickle=False) as archive:
            return [_tensor(path, name, archive[name]) for name in archive.files]
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(
            f"{path}: expected an .npz that can be read, found: {error.strerror or error}; name another file"
        ) from error
    # numpy evaluates headers, and zipfile and zlib have errors of their own: damage raises almost anything.
    except Exception as error:
        raise UsageError(
            f"{path}: expected an .npz of numbers, found something else ({type(error).__name__}: {error}); "
            "write it with numpy.savez"
        ) from error


def write_arrays(path: Path, outputs: Sequence[Any]) -> None:
    """Write outputs as ``output_0``, ``output_1``, ...: the whole file or none.

    bfloat16, which numpy has not, is written as float32.

    Raises:
        OSError: the place cannot be written; a file that was there is as it was.

    """
    arrays = {f"output_{index}": _array(output) for index, output in enumerate(outputs)}
    write_file(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def _tensor(path: Path, name: str, array: Any) -> torch.Tensor:
    if not isinstance(array, np.ndarray):  # a member that is no .npy comes as bytes
        raise UsageError(
            f"{path}, member {name!r}: expected an array, found other content; write it with numpy.savez"
        )
    try:
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        return torch.from_numpy(native.reshape(array.shape))
    except TypeError as error:
        raise UsageError(
            f"{path}, array {name!r}: expected numbers, found {array.dtype}; convert it with .astype"
        ) from error


def _array(output: Any) -> np.ndarray[Any, Any]:
    if not isinstance(output, torch.Tensor):
        return np.asarray(output)
    return (output.float() if output.dtype == torch.bfloat16 else output).numpy()

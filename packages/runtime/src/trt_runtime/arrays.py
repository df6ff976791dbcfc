"""Inputs and outputs of programs as `.npz` files."""

from __future__ import annotations

import errno
import re
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from .delegate.signature import Signature
from .errors import InputError, UsageError
from .files import write_file

_UNNAMED = re.compile(r"arr_\d+")


def read_arrays(path: Path) -> list[tuple[str, torch.Tensor]]:
    """Read the arrays of an `.npz` with their names, in the order of the file.

    Raises:
        UsageError: it is missing, no regular file, or cannot be read.
        InputError: it is no `.npz`, is damaged, or holds what no tensor can.

    """
    try:
        if not path.is_file():
            raise UsageError(
                f"{path}: expected a regular file, found {'another kind' if path.exists() else 'none'}; "
                "write one with numpy.savez"
            )
        with path.open("rb") as file:
            _check_kind(path, file)
            file.seek(0)
            # Given a path, numpy would leave its own file open where the archive is damaged.
            with np.load(file, allow_pickle=False) as archive:
                return [(name, _tensor(path, name, archive[name])) for name in archive.files]
    except (UsageError, InputError):
        raise
    except OSError as error:
        if error.errno == errno.EINVAL:  # a damaged archive has zipfile seek before the beginning
            raise InputError(f"{path}: {_DAMAGED}") from error
        raise UsageError(
            f"{path}: expected an .npz that can be read, found: {error.strerror or error}; name another file"
        ) from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: {_DAMAGED} ({error})") from error
    # numpy evaluates headers: damage raises almost anything.
    except Exception as error:
        raise InputError(
            f"{path}: expected an .npz of numbers, found something else ({type(error).__name__}: {error}); "
            "write it with numpy.savez"
        ) from error


_DAMAGED = (
    "expected a whole .npz, found one that is damaged or cut off; copy it again, or write it again with "
    "numpy.savez"
)


def _check_kind(path: Path, file: BinaryIO) -> None:
    """Say what a file is that is no archive."""
    head = file.read(6)
    if zipfile.is_zipfile(file):
        return
    if head.startswith(b"PK"):
        raise InputError(f"{path}: {_DAMAGED}")
    found = "an empty file" if not head else "another kind of file"
    if head == b"\x93NUMPY":
        found = "an .npy, which is one array without a name"
    raise InputError(f"{path}: expected an .npz, found {found}; write it with numpy.savez")


def in_order(
    path: Path, arrays: Sequence[tuple[str, torch.Tensor]], method: Signature
) -> list[Any]:
    """Return arrays as the inputs of a method: by name, or in the order of the file if none has a name of its own.

    `numpy.savez` names arrays `arr_0`, `arr_1`, ... if it is given none. An array without dimensions stands for a
    number where the method takes one. A program that does not have the names of its inputs takes all in order.

    Raises:
        InputError: there are more or fewer than the method takes, both named and unnamed ones, or names are missing,
            unknown, or there twice.

    """
    found = [name for name, _ in arrays]
    expected = method.names
    if expected and (set(found) & set(expected) or not all(map(_UNNAMED.fullmatch, found))):
        given = dict(arrays)
        needed = {
            name
            for name, value in zip(expected, method.inputs, strict=True)
            if not value.is_none or name in given
        }
        if len(given) != len(found) or set(found) != needed:
            raise InputError(
                f"{path}: expected an array for each input by its name, {', '.join(expected)}, found "
                f"{', '.join(found)}{_difference(found, expected, needed)}; write them with "
                f"numpy.savez(file, {', '.join(f'{name}=...' for name in expected)})"
            )
        values: list[Any] = [given.get(name) for name in expected]
    else:
        values = [tensor for _, tensor in arrays]
    if len(values) != len(method.inputs):
        named = ", ".join(f"{name}=..." for name in expected) or "array, ..."
        raise InputError(
            f"{path}: expected {len(method.inputs)} arrays, one for each input, found {len(values)}; write them with "
            f"numpy.savez(file, {named})"
        )
    return [
        value.item()
        if isinstance(value, torch.Tensor) and not value.dim() and one.is_number
        else value
        for value, one in zip(values, method.inputs, strict=True)
    ]


def _difference(found: Sequence[str], expected: Sequence[str], needed: Collection[str]) -> str:
    unnamed = [name for name in found if name not in expected and _UNNAMED.fullmatch(name)]
    groups = {
        "missing": [name for name in expected if name in needed and name not in found],
        "unknown": [name for name in found if name not in expected and name not in unnamed],
        "without a name": unnamed,
        "twice": sorted({name for name in found if found.count(name) > 1}),
    }
    text = "; ".join(f"{what}: {', '.join(names)}" for what, names in groups.items() if names)
    return f" ({text})" if text else ""


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
        raise InputError(
            f"{path}, member {name!r}: expected an array, found other content; write it with numpy.savez"
        )
    try:
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        return torch.from_numpy(native.reshape(array.shape))
    except TypeError as error:
        raise InputError(
            f"{path}, array {name!r}: expected numbers, found {array.dtype}; convert it with .astype"
        ) from error


def _array(output: Any) -> np.ndarray[Any, Any]:
    if not isinstance(output, torch.Tensor):
        return np.asarray(output)
    return (output.float() if output.dtype == torch.bfloat16 else output).numpy()

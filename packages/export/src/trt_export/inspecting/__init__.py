"""What is in a file: `.pte` programs and `.pt2` programs with engines, read without loading anything."""

import os
from pathlib import Path

from trt_export.arguments import path_argument
from trt_export.errors import FileFormatError
from trt_export.files.head import read_head
from trt_export.files.pte import is_pte
from trt_export.inspecting.model import Pt2Info, PteInfo
from trt_export.inspecting.of_pt2 import pt2_info
from trt_export.inspecting.of_pte import pte_info
from trt_export.upstream_errors import wrapped_errors


def info(path: str | os.PathLike[str]) -> PteInfo | Pt2Info:
    """Describe a `.pte` or `.pt2` by its content, whatever its name.

    Only headers and metadata are read, and the plans that a `.pt2` of trt-runtime up to 0.4 holds as text; those are
    checked against the sha256 in their records.

    Raises:
        ArgumentError: `path` is no path.
        FileFormatError: neither of the two, or a damaged one, or no file.
    """
    target = path_argument("path", path)
    with wrapped_errors(
        FileFormatError,
        f"info of {path}",
        "write the file again; it is damaged, or of a version that is not known",
    ):
        return _info(target)


def _info(target: Path) -> PteInfo | Pt2Info:
    head = read_head(target)
    if is_pte(head):
        return pte_info(target)
    if head.startswith(b"PK\x03\x04"):
        return pt2_info(target)
    raise FileFormatError(
        f"{target} is neither a .pte nor a .pt2: it begins with {head[:8]!r}"
        if head
        else f"{target} is empty: neither a .pte nor a .pt2"
    )

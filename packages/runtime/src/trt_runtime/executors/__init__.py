"""Executors: what runs a plan. The native library calls `base.load` at an engine's first execution."""

from __future__ import annotations

import hashlib

from .. import _native
from ..info import PLAN_FORMATS
from .base import check, load


def register() -> None:
    """Hand the executors of every plan format to the native library, and a hash."""
    _native.register_sha256(lambda plan: hashlib.sha256(plan).digest())
    for plan_format in PLAN_FORMATS:
        _native.register_executor(plan_format, check, load)

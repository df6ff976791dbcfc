"""Exported programs on disk (`.pt2`), with each plan once in the file and mapped from it."""

from .load import load_program
from .save import save_program

__all__ = ["load_program", "save_program"]

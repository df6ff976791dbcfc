"""Fixtures of the tests that ask engines."""

from export.engines.standins import unasked

__all__ = ["unasked"]

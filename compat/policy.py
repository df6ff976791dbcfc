"""Which pairs of releases go together: one pure function, the rules of POLICY.md."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from releases import rank

WINDOW = datetime.timedelta(days=365)


def refusal(
    runtime: str,
    export: str,
    minimum: str,
    runtime_dates: Mapping[str, datetime.date],
    today: datetime.date,
) -> str | None:
    """Say why a pair is not supported, or None if it is.

    Args:
        runtime: version of trt-runtime.
        export: version of trt-export.
        minimum: the oldest trt-runtime that this trt-export asks for; always a released version.
        runtime_dates: the day of each trt-runtime release.
        today: the day for which to answer.

    Raises:
        ValueError: ``minimum`` or ``runtime`` is no release.
    """
    for version in (minimum, runtime):
        if version not in runtime_dates:
            raise ValueError(
                f"expected a released trt-runtime ({', '.join(runtime_dates)}), found {version}"
            )
    if rank(runtime) < rank(minimum):
        return (
            f"trt-export {export} needs trt-runtime {minimum} or newer, found {runtime}: "
            f"pip install -U 'trt-runtime>={minimum}'"
        )
    newest = max(runtime_dates, key=rank)
    if runtime != newest and today - runtime_dates[runtime] > WINDOW:
        return (
            f"trt-runtime {runtime} was released on {runtime_dates[runtime]}, more than "
            f"{WINDOW.days} days ago, and is no longer supported: pip install -U trt-runtime"
        )
    return None

"""The policy as a table: which pairs are refused, and with which words."""

import datetime

import pytest
from policy import refusal

DATES = {
    "0.1.0": datetime.date(2026, 1, 10),
    "0.2.0": datetime.date(2026, 6, 1),
    "0.10.0": datetime.date(2026, 11, 30),
}


@pytest.mark.parametrize(
    ("runtime", "minimum", "today", "words"),
    [
        ("0.1.0", "0.1.0", "2026-12-01", None),
        ("0.10.0", "0.1.0", "2026-12-01", None),
        # The last day of the window, and the first after it.
        ("0.1.0", "0.1.0", "2027-01-10", None),
        ("0.1.0", "0.1.0", "2027-01-11", "released on 2026-01-10, more than 365 days ago"),
        # The newest release is supported however old it is.
        ("0.10.0", "0.1.0", "2030-01-01", None),
        ("0.1.0", "0.2.0", "2026-12-01", "needs trt-runtime 0.2.0 or newer, found 0.1.0"),
        # Versions are numbers: 0.10 is newer than 0.2.
        ("0.2.0", "0.10.0", "2026-12-01", "needs trt-runtime 0.10.0 or newer, found 0.2.0"),
        ("0.10.0", "0.2.0", "2026-12-01", None),
    ],
)
def test_a_pair_is_supported_or_refused_with_a_reason(
    runtime: str, minimum: str, today: str, words: str | None
) -> None:
    found = refusal(runtime, "0.2.0", minimum, DATES, datetime.date.fromisoformat(today))
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert words in found
        assert "pip install -U" in found


def test_the_minimum_is_a_released_version() -> None:
    with pytest.raises(ValueError, match=r"expected a released trt-runtime .*, found 0\.3\.0"):
        refusal("0.1.0", "0.2.0", "0.3.0", DATES, datetime.date(2026, 12, 1))

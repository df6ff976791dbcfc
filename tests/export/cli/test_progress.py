"""Progress: on a terminal only."""

import io

from trt_export.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_written_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.step("build", 1, 3)
    assert stream.getvalue() == ""


def test_a_terminal_shows_the_phase_and_how_far_it_is() -> None:
    stream = Terminal()
    with Progress(stream) as progress:
        progress.step("build", 1, 3)
        progress.step("a phase of a later version", 0, 1)
    text = stream.getvalue()
    assert "build engines (1/3)" in text or "a phase of a later version" in text

"""What a user is told where an engine lacks a capability."""

import re
import warnings
from pathlib import Path

import pytest

import trt_export
import trt_runtime
from export.engines.standins import accessors, methods_of
from export.programs import one_output_engine
from trt_export.engines.fallback import announce_fallbacks, is_strict
from trt_export.engines.library import engine_library
from trt_export.engines.probe import (
    ENGINE_TENSOR,
    METADATA_ONLY,
    TRACING_MODE_REAL,
    EngineCapabilities,
    MissingCapability,
    probe,
)
from trt_export.errors import FallbackWarning, MissingCapabilityError, UsageError

pytestmark = pytest.mark.usefixtures("unasked")

NEEDED = (METADATA_ONLY, ENGINE_TENSOR)


def old(*names: str, engine_class: str = "trt_runtime.Engine") -> EngineCapabilities:
    """An engine that has these capabilities only."""
    missing = tuple(
        MissingCapability(item, f"no method {item.method}()")
        for item in (TRACING_MODE_REAL, METADATA_ONLY, ENGINE_TENSOR)
        if item.name not in names
    )
    return EngineCapabilities(engine_class, frozenset(names), missing)


def announced(*engines: EngineCapabilities) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        announce_fallbacks(engines, NEEDED)
    assert all(item.category is FallbackWarning for item in caught)
    return [str(item.message) for item in caught]


def test_the_warning_names_capability_library_version_and_command() -> None:
    (metadata, plan) = announced(old("tracing-mode-real"))
    library = engine_library("trt_runtime.Engine")
    assert metadata == (
        "trt-export: engines of class trt_runtime.Engine lack the capability metadata-only (no method"
        " serialize_metadata_only()), so to_edge reads each engine's record by serializing the whole engine in"
        f" base64; loaded is {library.path} (trt-runtime {trt_runtime.__version__}):"
        " pip install -U 'trt-runtime>=0.5.0'"
    )
    assert plan.startswith("trt-export: ")
    assert "engine-tensor (no method serialized_engine_tensor())" in plan


def test_it_is_said_once() -> None:
    assert len(announced(old(), old())) == 2
    assert announced(old()) == []
    assert len(announced(old(engine_class="tensorrt.Engine"))) == 2


def test_each_capability_has_its_own_warning() -> None:
    assert len(announced(old("metadata-only"))) == 1
    (other,) = announced(old("engine-tensor"))
    assert "metadata-only" in other
    assert announced(old()) == []


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert announced(old("metadata-only", "engine-tensor")) == []
    assert announced() == []


def test_a_warning_that_a_filter_made_an_error_comes_again() -> None:
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FallbackWarning):
                announce_fallbacks([old()], NEEDED)


def test_the_warning_points_at_the_callers_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        announce_fallbacks([old()], NEEDED)
    assert {item.filename for item in caught} == {__file__}


def test_strict_mode_names_all_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_EXPORT_STRICT", "1")
    with pytest.raises(MissingCapabilityError) as caught:
        announce_fallbacks([old(), old()], NEEDED)
    text = str(caught.value)
    assert text.startswith("TRT_EXPORT_STRICT=1 allows no fallback: ")
    assert text.count("metadata-only") == text.count("engine-tensor") == 1
    assert "libtrt_runtime.so" in text
    assert "pip install -U 'trt-runtime>=0.5.0'" in text
    announce_fallbacks([old("metadata-only", "engine-tensor")], NEEDED)


def test_strict_mode_does_not_care_what_was_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    announced(old())
    monkeypatch.setenv("TRT_EXPORT_STRICT", "1")
    for _ in range(2):
        with pytest.raises(MissingCapabilityError):
            announce_fallbacks([old()], NEEDED)


@pytest.mark.parametrize(("value", "strict"), [("", False), ("0", False), ("1", True)])
def test_the_variable(monkeypatch: pytest.MonkeyPatch, value: str, strict: bool) -> None:
    monkeypatch.setenv("TRT_EXPORT_STRICT", value)
    assert is_strict() is strict


def test_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRT_EXPORT_STRICT", raising=False)
    assert not is_strict()


@pytest.mark.parametrize("value", ["true", "yes", "2", " 1"])
def test_a_value_that_means_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TRT_EXPORT_STRICT", value)
    with pytest.raises(UsageError, match=f"TRT_EXPORT_STRICT must be 0 or 1, found {value!r}"):
        is_strict()


def test_the_library_is_the_file_that_is_loaded() -> None:
    library = engine_library("trt_runtime.Engine")
    assert library.path is not None
    assert Path(library.path).name == "libtrt_runtime.so"
    assert re.search(rf" {re.escape(library.path)}$", Path("/proc/self/maps").read_text(), re.M)
    assert (library.distribution, library.version) == ("trt-runtime", trt_runtime.__version__)


def test_a_file_that_was_replaced_since_it_was_loaded_is_still_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "7f0000-7f1000 r-xp 00000000 08:01 42   /a b/libtrt_runtime.so (deleted)\n"
    monkeypatch.setattr(Path, "read_text", lambda path: "7f0000-7f1000 rw-p 0 00:00 0\n" + line)
    assert engine_library("trt_runtime.Engine").path == "/a b/libtrt_runtime.so (deleted)"


def test_what_cannot_be_found_out_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", gone)
    assert engine_library("trt_runtime.Engine").path is None
    assert str(engine_library("somewhere.Engine")) == (
        "unknown file (unknown package of unknown version)"
    )
    foreign = engine_library("tensorrt.Engine")
    assert (foreign.path, foreign.version) == (None, None)
    assert foreign.remedy == "pip install -U 'torch-tensorrt>=2.14'"


def test_the_classes_of_the_public_face() -> None:
    assert issubclass(trt_export.FallbackWarning, UserWarning)
    assert issubclass(MissingCapabilityError, trt_export.TrtExportError)
    assert isinstance(trt_export.probe(one_output_engine()), trt_export.EngineCapabilities)


def test_a_stand_in_with_accessors_lacks_nothing() -> None:
    engine = one_output_engine()
    assert announced(probe(methods_of(engine, **accessors(engine)))) == []

"""Processes that are not as they should be: another backend of our name, no ExecuTorch, no registration."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from trt_runtime import ExecutorUnavailableError
from trt_runtime.delegate import registration

from .programs import WITHOUT_COMPILER, scaling_pte

FOREIGN = """
#include <executorch/runtime/backend/interface.h>
namespace et = executorch::runtime;
struct Foreign final : et::BackendInterface {
    bool is_available() const override { return true; }
    et::Result<et::DelegateHandle*> init(et::BackendInitContext&, et::FreeableBuffer*,
                                         et::ArrayRef<et::CompileSpec>) const override {
        return et::Error::NotSupported;
    }
    et::Error execute(et::BackendExecutionContext&, et::DelegateHandle*,
                      et::Span<et::EValue*>) const override {
        return et::Error::NotSupported;
    }
};
extern "C" int add() {
    static Foreign backend;
    return static_cast<int>(et::register_backend({"TensorRTBackend", &backend}));
}
extern "C" int still_there() {
    return dynamic_cast<Foreign*>(et::get_backend_class("TensorRTBackend")) != nullptr;
}
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a backend of our name, built as CMakeLists.txt builds the delegate."""
    folder = tmp_path_factory.mktemp("foreign")
    source = folder / "foreign.cpp"
    source.write_text(FOREIGN)
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    include = Path(spec.submodule_search_locations[0]) / "include"
    portable = include / "executorch/runtime/core/portable_type/c10"
    flags = ["-std=c++17", "-shared", "-fPIC", "-DC10_USING_CUSTOM_GENERATED_MACROS"]
    library = folder / "libforeign.so"
    subprocess.run(
        ["g++", *flags, f"-I{include}", f"-I{portable}", str(source), "-o", str(library)],
        check=True,
        capture_output=True,
    )
    return library


def test_a_backend_of_our_name_is_left_alone(foreign: Path, tmp_path: Path) -> None:
    result = run(
        """
        import ctypes, os, sys
        import torch, trt_runtime
        from executorch.extension.pybindings import portable_lib, _portable_lib
        ctypes.CDLL(_portable_lib.__file__, os.RTLD_NOLOAD | os.RTLD_GLOBAL | os.RTLD_NOW)
        library = ctypes.CDLL(sys.argv[1])
        assert library.add() == 0
        for attempt in (trt_runtime.register_delegate, lambda: trt_runtime.load(sys.argv[2])):
            for _ in range(2):
                try:
                    attempt()
                except trt_runtime.DelegateNameTakenError as error:
                    print(error)
        (y,) = trt_runtime.load(sys.argv[3]).run([torch.ones(1, 8)])
        assert y.tolist() == [[2.0] * 8], y
        print("still there", library.still_there())
        """,
        foreign,
        scaling_pte(tmp_path / "inline.pte", format="tr01"),
        scaling_pte(tmp_path / "named.pte"),
    )
    assert result.returncode == 0, result.stderr
    *messages, last = result.stdout.splitlines()
    assert last == "still there 1"
    assert len(messages) == 4
    assert len(set(messages)) == 1
    assert (
        "expected no backend 'TensorRTBackend' but trt-runtime's, found that of another library"
        in (messages[0])
    )
    assert "in a process that does not load that library" in messages[0]


def test_ours_may_be_registered_again_and_is_used_by_executorch_itself(tmp_path: Path) -> None:
    result = run(
        """
        import sys
        import torch, trt_runtime
        trt_runtime.register_delegate()
        trt_runtime.register_delegate()
        from executorch.runtime import Runtime
        runtime = Runtime.get()
        for name in ("TrtRuntimeBackend", "TensorRTBackend"):
            print(runtime.backend_registry.registered_backend_names.count(name))
            print(runtime.backend_registry.is_available(name))
        (y,) = runtime.load_program(sys.argv[1]).load_method("forward").execute([torch.ones(1, 8)])
        print(y.tolist())
        """,
        scaling_pte(tmp_path / "model.pte"),
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        *("1", "True") * 2,
        str([[2.0] * 8]),
    ]


def test_without_executorch_the_import_works_and_a_program_says_what_to_install(
    tmp_path: Path,
) -> None:
    result = run(
        """
        import sys
        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "executorch":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Blocker())
        import torch, trt_runtime
        print("executorch" in sys.modules)
        for attempt in (trt_runtime.register_delegate, lambda: trt_runtime.load(sys.argv[1])):
            try:
                attempt()
            except trt_runtime.ExecutorUnavailableError as error:
                print(error)
        """,
        scaling_pte(tmp_path / "model.pte"),
    )
    assert result.returncode == 0, result.stderr
    first, *messages = result.stdout.splitlines()
    assert first == "False"
    assert len(messages) == 2
    for message in messages:
        assert message.startswith("expected the package executorch to run a .pte, found: ")
        assert message.endswith("pip install 'trt-runtime[executorch]'")


def test_the_import_does_not_load_executorch() -> None:
    result = run(
        """
        import sys, trt_runtime
        print([name for name in sys.modules if name.startswith("executorch") and "exir" not in name])
        print("libtrt_runtime_delegate" in open("/proc/self/maps").read())
        """
    )
    assert (result.returncode, result.stdout) == (0, "[]\nFalse\n"), result.stderr


@pytest.mark.parametrize("name", ["_portable_lib", "_C"])
def test_the_extension_module_of_either_version_of_executorch_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extension = ModuleType(f"a_package.{name}")
    extension.__file__ = "extension.so"
    monkeypatch.setitem(sys.modules, extension.__name__, extension)
    assert registration._extension(ModuleType("a_package.portable_lib")) == "extension.so"


def test_an_executorch_that_is_not_known_is_named() -> None:
    with pytest.raises(ExecutorUnavailableError, match="trt-runtime\\[executorch\\]"):
        registration._extension(ModuleType("another_package.portable_lib"))

"""The native library: what it links, and how it behaves with threads and at the end of a process."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime import Engine

from .building import RELU_PLAN, relu_engine, relu_record

FOLDER = Path(trt_runtime.__file__).parent
LIBRARY = FOLDER / "libtrt_runtime.so"


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_library_neither_links_nor_references_python() -> None:
    needed = output_of("readelf", "-d", str(LIBRARY))
    assert "libtorch_cpu.so" in needed
    assert "python" not in needed.lower()
    undefined = output_of("nm", "-D", "--undefined-only", str(LIBRARY)).split()
    assert not [name for name in undefined if name.startswith(("Py", "_Py", "_ZN8pybind11"))]


@pytest.mark.as_released
def test_the_library_exports_its_own_names_and_no_others() -> None:
    exported = output_of("nm", "-DC", "--defined-only", "--no-weak", str(LIBRARY)).splitlines()
    names = [line.split(maxsplit=2)[2] for line in exported if line.split()[1] in "TDB"]
    assert names
    ours = re.compile(r"_|trt_delegate_|.*trt_runtime::")
    assert not [name for name in names if not ours.match(name)]


@pytest.mark.as_released
def test_the_delegate_exports_its_registration_only_and_links_neither_executorch_nor_python() -> (
    None
):
    delegate = LIBRARY.with_name("libtrt_runtime_delegate.so")
    exported = output_of("nm", "-D", "--defined-only", "--no-weak", str(delegate)).splitlines()
    names = [line.split()[2] for line in exported]
    assert sorted(name for name in names if not name.startswith("_")) == [
        "trt_delegate_register",
        "trt_delegate_replace_log",
    ]
    linked = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", str(delegate)))
    assert "libtrt_runtime.so" in linked
    assert not [name for name in linked if "python" in name or "torch" in name or "qnn" in name]


@pytest.mark.as_released
def test_libraries_find_each_other_and_torch_by_relative_paths() -> None:
    (module,) = FOLDER.glob("_native*.so")
    for library in (LIBRARY, module, LIBRARY.with_name("libtrt_runtime_delegate.so")):
        (line,) = [
            line
            for line in output_of("readelf", "-d", str(library)).splitlines()
            if "RUNPATH" in line or "RPATH" in line
        ]
        assert line.endswith("[$ORIGIN:$ORIGIN/../torch/lib]")


@pytest.mark.as_released
def test_the_library_holds_no_path_of_the_machine_that_built_it() -> None:
    library = LIBRARY.read_bytes()
    for folder in (Path(__file__).parents[2], Path(torch.__file__).parent):
        assert str(folder).encode() not in library


def test_one_engine_serves_many_threads() -> None:
    engine = relu_engine()
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        x = torch.full((1 + seed % 16, 8), float(seed - 4))
        start.wait()
        return all(torch.equal(engine(x)[0], x.relu()) for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_threads_that_race_to_the_first_execution_end_with_one_executor(
    counted, monkeypatch
) -> None:
    """Both load, since no lock may be held over a call into Python; one of the two is kept."""
    from trt_runtime.executors import onnxruntime as module

    both_loading = threading.Barrier(2, timeout=30)
    original = module._check_supported

    def meet(info) -> None:
        both_loading.wait()
        original(info)

    monkeypatch.setattr(module, "_check_supported", meet)
    engine = relu_engine()
    with counted() as grown, ThreadPoolExecutor(2) as pool:
        x = torch.ones(1, 8)
        assert [y.sum() for (y,) in pool.map(lambda _: engine(x), range(2))] == [8, 8]
    assert grown["executor_loads"] == 1
    engine(x)  # with the one that was kept: another load would wait for a partner in vain


def test_engines_may_die_in_any_thread() -> None:
    for _ in range(5):
        engines = [relu_engine() for _ in range(8)]
        for engine in engines:
            engine(torch.ones(1, 8))
        threads = [threading.Thread(target=engines.pop) for _ in range(8)]
        del engine
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    gc.collect()


def test_serializing_while_running_is_safe() -> None:
    engine = relu_engine()
    with ThreadPoolExecutor(4) as pool:
        for future in [
            pool.submit(task)
            for _ in range(25)
            for task in (
                lambda: engine(torch.ones(2, 8)),
                lambda: Engine.deserialize(engine.serialize()),
                lambda: engine.info,
                lambda: bytes(engine.plan),
            )
        ]:
            future.result()


PREPARE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch, trt_runtime
from runtime.building import Calls, relu_engine
engine = relu_engine()
engine(torch.ones(1, 8))
"""


@pytest.mark.parametrize(
    "code",
    [
        "",
        "kept = engine.plan; del engine",
        "kept = engine.plan_tensor[3:]; del engine",
        "import builtins; builtins.kept = engine.script_object",
        "import builtins; builtins.kept = engine.plan_tensor",
        "cycle = [engine]; cycle.append(cycle)",
        "program = torch.export.export(Calls(engine), (torch.ones(1, 8),))",
        "import atexit; atexit.register(lambda: engine(torch.ones(1, 8)))",
        "import threading; threading.Thread(target=lambda: engine(torch.ones(1, 8))).start()",
        "raise SystemExit(0)",
    ],
)
def test_a_process_ends_cleanly(code) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PREPARE + code],
        capture_output=True,
        text=True,
        timeout=300,  # a hang; a build with sanitizers takes a minute to begin on a busy machine
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_an_error_in_an_executor_keeps_its_type_through_torch() -> None:
    with pytest.raises(trt_runtime.InputError) as caught:
        relu_engine()(torch.ones(99, 8))
    assert isinstance(caught.value, trt_runtime.TrtRuntimeError)
    assert isinstance(caught.value, RuntimeError)


def test_counters_are_exact_under_threads(counted) -> None:
    engine = Engine.from_plan(RELU_PLAN, relu_record())
    with counted() as grown, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: engine.serialize(), range(400)))
    assert grown == {"serializations": 400, "base64_encodes": 400}

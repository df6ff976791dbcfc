"""The end of the process while threads drop engines: Python objects are leaked then, and nothing aborts."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ..building import RELU_PLAN, relu_record
from .programs import WITHOUT_COMPILER, payload_of, scaling_pte

REPEATED = 3


def exits(code: str, *arguments: object) -> None:
    """Run a script several times, since threads meet the end of the process at another moment each time."""
    for _ in range(REPEATED):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_COMPILER + textwrap.dedent(code), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "at the end\n"), done.stderr
        for sign in ("terminate called", "FATAL", "Fatal Python error", "core dumped"):
            assert sign not in done.stderr


# Calls by ctypes run without the GIL, so that what a delegate owns in Python is dropped by a thread that has to ask
# for it.
DROPPING = """
    import ctypes, os, sys, threading, time
    from pathlib import Path
    import torch, trt_runtime
    from trt_runtime import _native

    library = ctypes.CDLL(str(Path(_native.__file__).with_name("libtrt_runtime.so")))
    RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    class Owner(ctypes.Structure):
        _fields_ = (("release", ctypes.c_void_p), ("context", ctypes.c_void_p))

    class Data(ctypes.Structure):
        _fields_ = (("find", ctypes.c_void_p), ("context", ctypes.c_void_p))

    class Message(ctypes.Structure):
        _fields_ = (("text", ctypes.c_char_p), ("capacity", ctypes.c_size_t))

    trt_runtime.register_delegate()
    payload = open(sys.argv[1], "rb").read()
    free = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # of null: nothing

    def open_delegate():
        handle = ctypes.c_void_p()
        status = library.trt_delegate_open(
            payload, ctypes.c_size_t(len(payload)), Owner(free, None), Data(None, None),
            ctypes.byref(handle), Message(ctypes.create_string_buffer(2048).raw, 0),
        )
        assert status == 0, status
        return handle
"""


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exit") / "payload"
    path.write_bytes(payload_of(RELU_PLAN, relu_record()))
    return path


def test_threads_that_wait_for_the_gil_when_the_interpreter_ends_do_not_abort_the_process(
    payload: Path,
) -> None:
    """Their look whether it ends came before it did; Python up to 3.13 ends such a thread by unwinding its stack."""
    exits(
        DROPPING
        + """
    import atexit
    handles = [open_delegate() for _ in range(8)]
    close = ctypes.cast(library.trt_delegate_close, ctypes.c_void_p)
    here = ctypes.PyDLL(None)  # its calls do not release the GIL

    def drop_in_threads():
        # The last handler of exit: what follows is the end, and until then nobody else gets the GIL.
        sys.setswitchinterval(1000)
        thread = ctypes.c_ulong()
        for handle in handles:
            assert here.pthread_create(ctypes.byref(thread), None, close, handle) == 0
        here.usleep(200_000)  # all of them wait for the GIL now

    atexit._clear()
    atexit.register(drop_in_threads)
    print("at the end", flush=True)
    """,
        payload,
    )


def test_daemon_threads_that_drop_delegates_do_not_abort_the_process(payload: Path) -> None:
    exits(
        DROPPING
        + """
    def drop(handles):
        started.wait()
        for handle in handles:
            library.trt_delegate_close(handle)

    started = threading.Event()
    for _ in range(4):
        handles = [open_delegate() for _ in range(50)]
        threading.Thread(target=drop, args=(handles,), daemon=True).start()
    sys.setswitchinterval(1e-5)
    started.set()
    print("at the end", flush=True)
    """,
        payload,
    )


def test_what_lives_until_the_end_is_released_after_the_interpreter(payload: Path) -> None:
    """A static object of C++ (here a handler of exit) drops a delegate when there is no interpreter any more."""
    exits(
        DROPPING
        + """
    # A destructor of a static object is a call like this one, by the C library, after Python's end.
    libc = ctypes.CDLL(None)
    register = libc.__cxa_atexit
    register.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    handles = [open_delegate() for _ in range(3)]
    close = ctypes.cast(library.trt_delegate_close, ctypes.c_void_p)
    for handle in handles:
        assert register(close, handle, None) == 0
    print("at the end", flush=True)
    """,
        payload,
    )


def test_programs_and_engines_of_the_module_live_until_the_end(tmp_path: Path) -> None:
    exits(
        """
    import sys
    import torch, trt_runtime
    from trt_runtime import Engine

    program = trt_runtime.load(sys.argv[1])
    program.run([torch.ones(1, 8)])
    tensors = [program.run([torch.ones(1, 8)]) for _ in range(3)]
    torch.kept_by_another_module = (program, tensors)
    print("at the end", flush=True)
    """,
        scaling_pte(tmp_path / "model.pte"),
    )

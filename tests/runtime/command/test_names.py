"""`trt-runtime run --inputs`: arrays by the names of the program's inputs, or in their order."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import trt_export
import trt_runtime
from trt_export.describing import info_lines

from .conftest import Outcome

Command = Callable[..., Outcome]
Array = np.ndarray


class Weighs(torch.nn.Module):
    """tokens + 10 * mask, with a number and a None between them, and a dict behind."""

    def forward(
        self,
        tokens: torch.Tensor,
        scale: int,
        unused: None,
        *,
        mask: torch.Tensor,
        pair: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        return torch.relu(tokens) + scale * mask + pair["a"]


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods; only one has an engine, and the names of both are in it."""
    # Different tensors: torch.export takes one that is given twice for one input.
    x, y, z = torch.ones(3), torch.ones(3), torch.ones(3)
    first = torch.export.export(Weighs(), (x, 10, None), {"mask": y, "pair": {"a": z}})
    path = tmp_path_factory.mktemp("names") / "model.pte"
    methods = {
        "a_plain": torch.export.export(Plain(), (x, y)),
        "forward": trt_export.compile(first),
    }
    trt_export.save(trt_export.to_edge(methods), path)
    return path


NAMES = ("tokens", "scale", "unused", "mask", "pair_a")


def array(value: float) -> Array:
    return np.full(3, value, np.float32)


@pytest.fixture
def run(program: Path, tmp_path: Path, command: Command) -> Callable[..., Outcome]:
    def run(*arrays: Array, method: str = "forward", **named: Array) -> Outcome:
        np.savez(tmp_path / "in.npz", *arrays, **named)
        return command("run", program, "--inputs", tmp_path / "in.npz", "--method", method)

    return run


def test_the_file_has_the_names_of_all_methods(program: Path) -> None:
    loaded = trt_runtime.load(program)
    assert loaded.signature("forward").names == NAMES
    assert loaded.signature("a_plain").names == ("x", "y")
    methods = {method.name: method for method in trt_export.info(program).methods}  # type: ignore[union-attr]
    assert methods["forward"].input_names == NAMES
    assert methods["a_plain"].input_names == ("x", "y")
    assert "  input 3: float32 [3], named mask" in info_lines(trt_export.info(program))


def test_arrays_go_by_name_in_any_order(run: Callable[..., Outcome]) -> None:
    named = {"pair_a": array(100), "mask": array(2), "scale": np.array(10), "tokens": array(1)}
    assert run(**named)[:2] == (0, "output_0: float32 [3]: 121, 121, 121\n")
    assert run(y=array(1), x=array(3), method="a_plain")[1] == "output_0: float32 [3]: 2, 2, 2\n"


def test_unnamed_arrays_go_in_their_order(run: Callable[..., Outcome]) -> None:
    assert run(array(3), array(1), method="a_plain")[1] == "output_0: float32 [3]: 2, 2, 2\n"


WHOLE = {"tokens": array(1), "scale": np.array(10), "mask": array(2), "pair_a": array(0)}


@pytest.mark.parametrize(
    ("arrays", "named", "words"),
    [
        ([array(1)], WHOLE, "without a name: arr_0"),
        (
            [array(1), array(2)],
            {"mask": array(1)},
            "missing: tokens, scale, pair_a; without a name",
        ),
        ([], WHOLE | {"masks": array(1)}, "(unknown: masks)"),
        ([], {name: WHOLE[name] for name in ("tokens", "scale", "mask")}, "(missing: pair_a)"),
        ([], {"a": array(1)}, "missing: tokens, scale, mask, pair_a; unknown: a"),
        ([array(1)], {"a": array(1)}, "unknown: a; without a name: arr_0"),
    ],
    ids=["too many", "mixture", "unknown", "missing", "all unknown", "unknown mixture"],
)
def test_other_names_are_refused_with_those_that_are_expected(
    arrays: Sequence[Array], named: dict[str, Array], words: str, run: Callable[..., Outcome]
) -> None:
    code, out, err = run(*arrays, **named)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"in.npz: expected an array for each input by its name, {', '.join(NAMES)}, found" in err
    assert words in err


def test_a_name_that_is_there_twice(program: Path, tmp_path: Path, command: Command) -> None:
    import warnings
    import zipfile

    np.savez(tmp_path / "in.npz", x=array(1), y=array(2))
    with zipfile.ZipFile(tmp_path / "in.npz", "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("x.npy", archive.read("x.npy"))
    code, _, err = command("run", program, "--inputs", tmp_path / "in.npz", "--method", "a_plain")
    assert code == 1
    assert "(twice: x)" in err


def test_a_program_without_names_takes_its_inputs_in_the_order_of_the_file(
    program: Path, tmp_path: Path, command: Command
) -> None:
    """As trt-export before 0.4.0 wrote them."""
    older = tmp_path / "older.pte"
    older.write_bytes(program.read_bytes().replace(b"input_names", b"other_names"))
    assert trt_runtime.load(older).signature().names == ()
    assert trt_export.info(older).methods[0].input_names == ()  # type: ignore[union-attr]
    np.savez(tmp_path / "in.npz", first=array(3), x=array(1))
    done = command("run", older, "--inputs", tmp_path / "in.npz", "--method", "a_plain")
    assert done[:2] == (0, "output_0: float32 [3]: 2, 2, 2\n")


@pytest.mark.parametrize(
    "text",
    [
        b'{"a_plain": ["x"], "forward": []}',
        b'{"a_plain": ["x", "x"]}',
        b'{"a_plain": ["x", 1]}',
        b'{"a_plain": {"x": 0, "y": 1}}',
        b'["a_plain"]',
        b"{",
    ],
    ids=["few", "twice", "number", "object", "list", "no JSON"],
)
def test_damaged_names_are_refused_by_both_packages(
    text: bytes, program: Path, tmp_path: Path
) -> None:
    data = program.read_bytes()
    start = data.index(b'{"a_plain": ["x", "y"]')
    end = data.index(b"}", start) + 1
    path = tmp_path / "damaged.pte"
    path.write_bytes(data[:start] + text.ljust(end - start) + data[end:])
    with pytest.raises(trt_runtime.ProgramError, match=r"damaged\.pte: .*expected"):
        trt_runtime.load(path)
    with pytest.raises(trt_export.errors.FileFormatError, match=r"damaged\.pte: .*expected"):
        trt_export.info(path)


def test_the_way_out_is_in_the_words_of_its_reader(
    program: Path, run: Callable[..., Outcome]
) -> None:
    wrong = np.ones(3, np.float64)
    _, _, err = run(wrong, wrong, method="a_plain")
    assert "convert it: .astype('float32') before numpy.savez" in err
    with pytest.raises(trt_runtime.InputError, match=r"convert it: \.to\(torch\.float32\)"):
        trt_runtime.load(program).run([torch.from_numpy(wrong)] * 2, "a_plain")


def test_a_plan_that_is_in_a_data_file(tmp_path: Path, command: Command) -> None:
    exported = torch.export.export(Plain(), (torch.ones(3), torch.ones(3)))
    edge = trt_export.to_edge(trt_export.compile(exported), data_file="plans")
    path, data = trt_export.save(edge, tmp_path / "model.pte")
    np.savez(tmp_path / "in.npz", array(3), array(1))
    code, _, err = command("run", path, "--inputs", tmp_path / "in.npz")
    assert (code, err.count("\n")) == (1, 1)
    assert "give that too: --data PLANS.ptd" in err
    with pytest.raises(trt_runtime.TrtRuntimeError, match=r"trt_runtime\.load\(program, data="):
        trt_runtime.load(path).run([torch.ones(3), torch.ones(3)])
    assert "found a .ptd; name the other file" in command("check", data)[2]

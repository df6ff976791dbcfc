"""What is in a `.pt2` that `torch.export.save` wrote: programs, and the engines that they hold.

Nothing is loaded: the archive is a zip of JSON files and raw tensors, and the one pickle that matters, that of
an engine's state, is read by an unpickler that knows two names and calls nothing of torch.
Layout: `torch/export/pt2_archive/constants.py`; the JSON: `torch/_export/serde/schema.py`.
"""

import io
import json
import pickle
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from trt_export.errors import FileFormatError
from trt_export.files.zip_window import open_member
from trt_export.plan import HEADER_BYTES

_CLASSES = "__torch__.torch.classes."
FOREIGN_CLASS = "tensorrt.Engine"  # that of torch-tensorrt
_ENGINE_CLASSES = ("trt_runtime.Engine", FOREIGN_CLASS)
_TENSOR_STATE = 1  # the version of a state that has the plan as a tensor (docs/engine-record.md)
# torch/_export/serde/schema.py, ScalarType, in torch's names.
_SCALAR_TYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz",
}  # fmt: skip


@dataclass(frozen=True)
class ProgramValue:
    """An input or output of a program; a dimension is a size or the text of an expression."""

    name: str
    kind: str
    dtype: str | None = None
    shape: tuple[int | str, ...] | None = None


@dataclass(frozen=True)
class Program:
    """An exported program; `engines` are the names of those it holds, `calls` the calls of engines."""

    name: str
    torch_version: str
    inputs: tuple[ProgramValue, ...]
    outputs: tuple[ProgramValue, ...]
    operators: tuple[str, ...]
    engines: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class StoredPlan:
    """A plan that lies in the archive as it is: its `size`, and its first bytes, which hold its header."""

    size: int
    start: bytes


@dataclass(frozen=True)
class StoredEngine:
    """An engine in the archive: the 13 strings of its record, as they were pickled.

    Up to trt-runtime 0.4 the plan is among them, in base64; from 0.5 on it is `plan`, and its slot is empty.
    """

    name: str
    type: str
    state: Any
    plan: StoredPlan | None = None


@dataclass(frozen=True)
class Pt2:
    """The parts of a `.pt2`; `weights_size` is that of all weights and constant tensors, in bytes."""

    programs: tuple[Program, ...]
    engines: tuple[StoredEngine, ...]
    weights_size: int


def read_pt2(path: Path) -> Pt2:
    """Read an archive.

    Raises:
        FileFormatError: not a `.pt2`, or a damaged one.
    """
    try:
        # Without a buffer of its own: `open_member` has one where it helps, and headers of plans are small.
        with path.open("rb", buffering=0) as file, zipfile.ZipFile(file) as archive:
            return _read(file, archive)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    # zipfile, its decompressors, json and pickle have errors of their own: damage raises almost anything.
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileFormatError(
            f"{path} is no readable .pt2: {reason or type(error).__name__}; save the program again"
        ) from error


def _read(source: BinaryIO, archive: zipfile.ZipFile) -> Pt2:
    names = {_inner(name): name for name in archive.namelist()}
    models = [name for name in names if name.startswith("models/") and name.endswith(".json")]
    if not models:
        raise FileFormatError(
            "expected a .pt2, found a zip without an exported program; write one with torch.export.save"
        )
    programs, engines, weights = [], [], 0
    for model in models:
        name = PurePosixPath(model).stem
        data = json.loads(archive.read(names[model]))
        types = _object_types(data)
        constants = _config(archive, names, f"data/constants/{name}_constants_config.json")
        for target, entry in constants.items():
            if types.get(target) in _ENGINE_CLASSES:
                member = names[f"data/constants/{entry['path_name']}"]
                with open_member(source, archive, member) as file:
                    engines.append(StoredEngine(target, types[target], *_state(file)))
        programs.append(
            _program(name, data, [key for key, type_ in types.items() if type_ in _ENGINE_CLASSES])
        )
    for inner, name in names.items():
        if inner.startswith(("data/weights/weight_", "data/constants/tensor_")):
            weights += archive.getinfo(name).file_size
    return Pt2(tuple(programs), tuple(engines), weights)


def _inner(name: str) -> str:
    """The name without the archive's own top folder, which is the file's name when it was written."""
    return name.partition("/")[2]


def _config(archive: zipfile.ZipFile, names: dict[str, str], name: str) -> dict[str, Any]:
    if name not in names:
        return {}
    config: dict[str, Any] = json.loads(archive.read(names[name]))["config"]
    return config


def _object_types(model: dict[str, Any]) -> dict[str, str]:
    """The TorchBind class of each object that a program holds, by the object's name."""
    return {
        spec["custom_obj"]["custom_obj_name"]: spec["custom_obj"]["arg"]["class_fqn"].removeprefix(
            _CLASSES
        )
        for spec in model["graph_module"]["signature"]["input_specs"]
        if "custom_obj" in spec
    }


def _program(name: str, model: dict[str, Any], engines: list[str]) -> Program:
    graph, signature = model["graph_module"]["graph"], model["graph_module"]["signature"]
    inputs = [_input(spec, graph) for spec in signature["input_specs"]]
    outputs = [
        spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec
    ]
    targets = [node["target"].removeprefix("torch.ops.") for node in graph["nodes"]]
    return Program(
        name=name,
        torch_version=str(model.get("torch_version", "unknown")),
        inputs=tuple(value for value in inputs if value is not None),
        outputs=tuple(_value(argument, graph) for argument in outputs),
        operators=tuple(sorted(set(targets))),
        engines=tuple(engines),
        calls=sum(_calls_engine(node) for node in graph["nodes"]),
    )


def _calls_engine(node: dict[str, Any]) -> bool:
    """Whether a node calls an engine, itself or as `with_effects(token, execute_engine, ...)`."""
    targets = [node["target"], *(item["arg"].get("as_operator") for item in node["inputs"])]
    return any(
        target.removeprefix("torch.ops.").split(".")[1:2] == ["execute_engine"]
        for target in targets
        if isinstance(target, str)
    )


def _input(spec: dict[str, Any], graph: dict[str, Any]) -> ProgramValue | None:
    """What a caller passes; None for what the program holds itself."""
    if "user_input" in spec:
        return _value(spec["user_input"]["arg"], graph)
    if "constant_input" in spec:
        ((kind, value),) = spec["constant_input"]["value"].items()
        return ProgramValue(f"{spec['constant_input']['name']} = {value}", kind.removeprefix("as_"))
    return None


def _value(argument: dict[str, Any], graph: dict[str, Any]) -> ProgramValue:
    ((kind, value),) = argument.items()
    name = str(value.get("name", "")) if isinstance(value, dict) else str(value)
    meta = graph["tensor_values"].get(name)
    if kind != "as_tensor" or meta is None:
        return ProgramValue(name, kind.removeprefix("as_"))
    dtype = _SCALAR_TYPES.get(meta["dtype"], f"scalar type {meta['dtype']}")
    return ProgramValue(name, "tensor", dtype, tuple(_dimension(size) for size in meta["sizes"]))


def _dimension(size: dict[str, Any]) -> int | str:
    if "as_int" in size:
        return int(size["as_int"])
    # The text is sympy's srepr: Symbol('s77', positive=True, integer=True), Integer(2).
    text = re.sub(r"Symbol\('(\w+)'[^()]*\)", r"\1", str(size["as_expr"]["expr_str"]))
    return re.sub(r"Integer\((-?\d+)\)", r"\1", text)


def _state(file: IO[bytes]) -> tuple[Any, StoredPlan | None]:
    """The state of one pickled TorchBind object: a zip in the zip, as `torch::jit::pickle_save` writes it."""
    with zipfile.ZipFile(file) as archive:
        names = {_inner(name): name for name in archive.namelist()}
        with archive.open(names["data.pkl"]) as pickled:
            loaded = _StateUnpickler(io.BufferedReader(pickled)).load()  # type: ignore[type-var]
        if not isinstance(loaded, _Object):
            raise FileFormatError(f"an engine's pickle holds a {type(loaded).__name__}")
        state = loaded.state
        if not isinstance(state, tuple):
            return state, None
        if not state or type(state[0]) is not int or state[0] != _TENSOR_STATE:
            raise FileFormatError(
                f"an engine's state is of version {state[0] if state else None!r:.20}, expected {_TENSOR_STATE}; "
                "it was saved by a later trt-runtime: pip install -U trt-export"
            )
        if len(state) != 3 or not isinstance(state[2], _Storage):
            raise FileFormatError("an engine's state has no plan beside its record")
        return state[1], _stored_plan(archive, names, state[2])


def _stored_plan(
    archive: zipfile.ZipFile, names: dict[str, str], storage: "_Storage"
) -> StoredPlan:
    name = names.get(f"data/{storage.key}", "")
    size = archive.getinfo(name).file_size if name else 0
    if size != storage.size:
        raise FileFormatError(
            f"an engine's plan has {size} bytes, its state says {storage.size}; save the program again"
        )
    with archive.open(name) as file:
        return StoredPlan(size, file.read(HEADER_BYTES))


class _Object:
    """Stands for the TorchBind object: takes its state and does nothing with it."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True)
class _Storage:
    """Stands for the memory of a tensor of bytes: the name of what it is in the archive, and its size."""

    key: str
    size: int


def _whole_storage(
    storage: Any, offset: Any, shape: Any, stride: Any, requires_grad: Any, hooks: Any
) -> _Storage:
    """What stands for a tensor: a plan is all of its memory, in one dimension."""
    if not isinstance(storage, _Storage) or (offset, shape, stride) != (0, (storage.size,), (1,)):
        raise FileFormatError("an engine's plan is no plain tensor of bytes")
    return storage


class _StateUnpickler(pickle.Unpickler):
    """Knows the names that an engine's state is pickled with, and gives harmless things for them."""

    def find_class(self, module: str, name: str) -> Any:
        if (
            module.startswith(_CLASSES)
            and f"{module.removeprefix(_CLASSES)}.{name}" in _ENGINE_CLASSES
        ):
            return _Object
        if (module, name) in _HARMLESS:
            return _HARMLESS[module, name]
        raise FileFormatError(
            f"an engine's pickle asks for {module}.{name}, which no engine's state needs"
        )

    def persistent_load(self, pid: Any) -> _Storage:
        if (
            not isinstance(pid, tuple)
            or len(pid) != 5
            or pid[:2] != ("storage", _BYTES)
            or not isinstance(pid[2], str)
            or type(pid[4]) is not int
        ):
            raise FileFormatError(
                "an engine's pickle refers to data beside it that is no tensor of bytes"
            )
        return _Storage(pid[2], pid[4])


_BYTES = "ByteStorage"
_HARMLESS: dict[tuple[str, str], Any] = {
    ("torch.jit._pickle", "restore_type_tag"): lambda value, type_name: value,
    ("torch._utils", "_rebuild_tensor_v2"): _whole_storage,
    ("torch", _BYTES): _BYTES,
    ("collections", "OrderedDict"): dict,  # the hooks of a tensor: there are none
}

"""Plans whose weights lie behind their ONNX model, which then may have more than 2 GiB of them."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

import trt_runtime
from trt_runtime import Engine, PlanError, RecordError, _native
from trt_runtime.executors.onnx_session import Session

from .building import binding, model, record_of

RANDOM = np.random.default_rng(0)
WEIGHTS = {
    name: (RANDOM.normal(size=shape) / 8).astype(np.float32)
    for name, shape in (
        *(("table", (50, 64)), ("product", (64, 64)), ("folded", (64, 64))),
        *(("kernel", (64, 64, 3)), ("scale", (64,)), ("bias", (64,)), ("mean", (64,))),
    )
}
INPUTS = [binding("x", "int64", ["i0d0"], {0: (3, 9)})]
OUTPUTS = [binding("y", "float32", [1, 64, "i0d0"])]
# Looked up, multiplied, changed when the session is made, and merged with another.
NODES = [
    ("Gather", ["table", "x"], ["a"]),
    ("MatMul", ["a", "product"], ["b"]),
    ("Transpose", ["folded"], ["t"], {"perm": [1, 0]}),
    ("MatMul", ["b", "t"], ["c"]),
    ("Transpose", ["c"], ["d"], {"perm": [1, 0]}),
    ("Unsqueeze", ["d", "zero"], ["e"]),
    ("Conv", ["e", "kernel"], ["f"], {"pads": [1, 1]}),
    ("BatchNormalization", ["f", "scale", "bias", "mean", "scale"], ["y"]),
]
ZERO = helper.make_tensor("zero", TensorProto.INT64, [1], [0])


def whole() -> ModelProto:
    """The model with its weights in it."""
    inside = [numpy_helper.from_array(np.abs(value), name) for name, value in WEIGHTS.items()]
    return model(NODES, INPUTS, OUTPUTS, [ZERO, *inside])


def parts(location: str = "weights", shift: int = 0) -> tuple[bytes, bytes]:
    """The model, and the weights that it refers to; offsets are larger than they should be by `shift`."""
    proto = model(NODES, INPUTS, OUTPUTS, [ZERO])
    weights = b""
    for name, value in WEIGHTS.items():
        weights += bytes(-len(weights) % 64)
        tensor = proto.graph.initializer.add(name=name, data_type=1, dims=value.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in (
            ("location", location),
            ("offset", len(weights) + shift),
            ("length", value.nbytes),
        ):
            tensor.external_data.add(key=key, value=str(text))
        weights += np.abs(value).tobytes()
    return proto.SerializeToString(), weights


def plan_of(proto: bytes, weights: bytes) -> bytes:
    """Our header, the model and the weights behind it."""
    payload = proto.ljust(-(-len(proto) // 64) * 64, b"\0") + weights
    digest = hashlib.sha256(payload).digest()
    header = struct.pack("<4sHHIIQ32sQ", b"ortp", 1, 1, 128, 2, len(payload), digest, len(proto))
    return (header + b"{}").ljust(128, b"\0") + payload


PLAN = plan_of(*parts())
X = torch.arange(5)
RECORD = record_of(INPUTS, OUTPUTS)


def expected() -> torch.Tensor:
    session = onnxruntime.InferenceSession(whole().SerializeToString())
    return torch.from_numpy(session.run(["y"], {"x": X.numpy()})[0])


def test_it_computes_what_the_whole_model_computes(counted) -> None:
    engine = Engine.from_plan(PLAN, RECORD)
    with counted() as grown:
        (y,) = engine(X)
    assert grown == {"executor_loads": 1, "plan_hashes": 1}
    torch.testing.assert_close(y, expected())


def test_weights_are_the_plans_memory() -> None:
    plan = _native.share_plan(PLAN)
    session = Session(memoryview(plan)[plan.payload_offset :], plan.model_size)
    weights = session.weights
    assert weights.ctypes.data + weights.nbytes == (
        np.frombuffer(plan, np.uint8).ctypes.data + len(PLAN)
    )


def test_a_plan_at_an_odd_address_is_copied(counted) -> None:
    memory = bytearray(len(PLAN) + 65)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64 + 1
    memory[start : start + len(PLAN)] = PLAN
    with counted() as grown:
        payload = memoryview(memory)[start : start + len(PLAN)][128:]
        session = Session(payload, _native.share_plan(PLAN).model_size)
    assert grown == {"plan_copies": 1}
    np.testing.assert_allclose(
        session.ort.run(["y"], {"x": X.numpy()})[0], expected().numpy(), rtol=1e-5, atol=1e-5
    )


def test_it_is_mapped_pickled_and_saved_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(PLAN)
    engine = Engine.from_plan(path, RECORD)
    for again in (
        engine,
        pickle.loads(pickle.dumps(engine)),
        Engine.deserialize(engine.serialize()),
    ):
        assert bytes(again.plan) == PLAN
        torch.testing.assert_close(again(X)[0], expected())


@pytest.mark.parametrize("prepack", [True, False])
def test_weights_are_used_where_they_lie_whatever_the_record_says(prepack: bool) -> None:
    engine = Engine.from_plan(PLAN, {**RECORD, "prepack": prepack})
    assert engine.info.prepack is prepack
    assert ("prepack" in engine.info.to_mapping()) is not prepack
    torch.testing.assert_close(engine(X)[0], expected())
    again = Engine.deserialize(engine.serialize())
    assert again.info == engine.info


def test_prepack_is_true_or_false() -> None:
    with pytest.raises(RecordError, match="field 'prepack': expected a value of type bool"):
        Engine.from_plan(PLAN, {**RECORD, "prepack": "no"})


# Damage: what a model refers to is not there.


@pytest.mark.parametrize(
    ("proto", "weights"),
    [
        pytest.param(*parts(shift=1 << 40), id="far behind the end"),
        pytest.param(parts()[0], parts()[1][:-4], id="cut off"),
        pytest.param(parts()[0], b"", id="none"),
        pytest.param(*parts(location="/etc/passwd"), id="another file"),
        pytest.param(*parts(location="../weights"), id="a file above"),
        pytest.param(b"\x3a\x02\x2a\x05", b"", id="no model"),
    ],
)
def test_what_is_not_in_the_plan_is_refused(proto: bytes, weights: bytes) -> None:
    engine = Engine.from_plan(plan_of(proto, weights), RECORD)
    with pytest.raises(PlanError, match="expected an ONNX model that ONNX Runtime"):
        engine(X)


def test_it_is_a_capability() -> None:
    assert "external-weights" in trt_runtime.capabilities()

"""Runs ONNX models in ONNX Runtime on the CPU, without a plan, and returns values from inside of them."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime

from trt_export.builders.onnx_file import OnnxFile
from trt_export.builders.widen import widen

_QUIET = 4  # only fatal messages: what a session refuses is in the exception already

PLAIN_SETTINGS: Mapping[str, str] = {}
# What releases of trt-runtime open sessions with: nothing up to 0.5.0, one of these later, as the processor is.
RUNTIME_SETTINGS: tuple[Mapping[str, str], ...] = (
    PLAIN_SETTINGS,
    {"session.x64quantprecision": "1"},
    {"session.disable_quant_qdq": "1"},
)


class ReferenceSession:
    """The model as it is written: without optimizations, and without a copy of its weights.

    `values` are names of values inside the model that `run` may be asked for. `widened` computes bfloat16, for which
    ONNX Runtime's CPU has no kernels, in float32.

    Raises:
        Exception: ONNX Runtime's own, which have no common base, from the constructor and from `run`.
    """

    def __init__(
        self, model: OnnxFile, values: Sequence[str] = (), *, widened: bool = False
    ) -> None:
        proto = model.without_weights()
        if widened:
            widen(proto)
        _add_outputs(proto, values)
        options = _options(PLAIN_SETTINGS)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = _session(proto.SerializeToString(), options)
        self._names = [value.name for value in self._session.get_inputs()]
        self._outputs = model.outputs
        self._weight = model.weight
        self._widened = widened

    def run(
        self, inputs: Sequence[np.ndarray], values: Sequence[str] | None = None
    ) -> list[np.ndarray]:
        """Return the model's outputs, or the named values."""
        feeds = dict(zip(self._names, inputs, strict=False))
        for name in self._names[len(inputs) :]:
            weight = self._weight(name)
            feeds[name] = (
                weight.astype(np.float32)
                if self._widened and weight.dtype.name == "bfloat16"
                else weight
            )
        return _run(self._session, self._outputs if values is None else values, feeds)


class OptimizedSession:
    """The model as trt-runtime runs it: with ONNX Runtime's optimizations. Copies the weights.

    An optimization that would remove one of `values` is not applied. Raises as `ReferenceSession`.
    """

    def __init__(
        self, model: OnnxFile, values: Sequence[str], settings: Mapping[str, str] = PLAIN_SETTINGS
    ) -> None:
        content = b"".join([*model.chunks(), model.output_chunk(values)])
        self._session = _session(content, _options(settings))
        self._names = [value.name for value in self._session.get_inputs()]
        self._outputs = model.outputs

    def run(
        self, inputs: Sequence[np.ndarray], values: Sequence[str] | None = None
    ) -> list[np.ndarray]:
        """Return the model's outputs, or the named values."""
        feeds = dict(zip(self._names, inputs, strict=True))
        return _run(self._session, self._outputs if values is None else values, feeds)


def check_kernels(model: OnnxFile) -> None:
    """Have ONNX Runtime look up the kernel of every node, without weights; raises as `ReferenceSession`."""
    ReferenceSession(model)


def _run(
    session: onnxruntime.InferenceSession, names: Sequence[str], feeds: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    found: list[np.ndarray] = session.run(list(names), dict(feeds))
    return found


def _options(settings: Mapping[str, str]) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    for key, value in settings.items():
        options.add_session_config_entry(key, value)
    return options


def _session(content: bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    vars(session).pop("_model_bytes", None)  # it keeps them for a fallback that is switched off
    return session


def _add_outputs(proto: onnx.ModelProto, values: Sequence[str]) -> None:
    present = {value.name for value in proto.graph.output}
    for name in values:
        if name not in present:
            proto.graph.output.add(name=name)

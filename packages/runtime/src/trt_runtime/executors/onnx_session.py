"""Opens ONNX Runtime sessions over a model whose weights stay where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from .. import _native
from .onnx_int8 import int8_settings
from .onnx_weights import detach_weights
from .wire import WireError

# The name by which a model refers to the weights behind it: docs/engine-record.md.
WEIGHTS_FILE = "weights"
_ALIGNMENT = 64  # of the weights behind a model, to the beginning of the payload
_LARGEST_TYPE = 8  # bytes of a number
_IN_PLACE: Mapping[str, str] = {"session.use_external_initializer_file_buffers_directly": "1"}
_WITHOUT_COPIES: Mapping[str, str] = {"session.disable_prepacking": "1"}
_SILENT = 4  # log severity "fatal": what goes wrong is in the exception that we raise


class _Parts(NamedTuple):
    """A model that refers to weights in a file, and the file's contents."""

    model: bytes
    file: memoryview


class Session:
    """An ONNX Runtime session and what it reads: keep all of it as long as anything of the session is in use."""

    def __init__(
        self, payload: memoryview, model_size: int | None = None, *, prepack: bool = True
    ) -> None:
        """Open a session that reads its large weights in ``payload``, or else copies all of it.

        ONNX Runtime takes a model as ``bytes`` only, and copies those once more. Instead it is given one that says
        that its weights are in a file, and then the weights.

        Args:
            payload: a model, and the weights behind it if it is smaller.
            model_size: the size of the model in bytes; None if the payload is nothing else.
            prepack: let ONNX Runtime copy the weights of products into the order that its kernels are fastest with.

        Raises:
            Exception: what ONNX Runtime raises. A dozen classes without a common base.

        """
        self.weights: Any = None
        """The memory that ONNX Runtime reads weights in; None if it has copied all."""
        whole: list[_Parts | None] = [None]
        if model_size is None or model_size == len(payload):
            parts = _detached(payload)
            forms = whole if parts is None else [parts, *whole]
        else:
            start = -(-model_size // _ALIGNMENT) * _ALIGNMENT
            parts = _Parts(bytes(payload[:model_size]), payload[start:])
            forms = [parts]
        every = int8_settings(parts and parts.model)
        attempts = [(form, settings) for form in forms for settings in every]
        for form, settings in attempts:
            try:
                self._open(form, payload, settings if prepack else {**settings, **_WITHOUT_COPIES})
            except MemoryError:
                raise
            except Exception:
                if (form, settings) == attempts[-1]:
                    raise
            else:
                return

    def _open(self, parts: _Parts | None, payload: memoryview, settings: Mapping[str, str]) -> None:
        import numpy as np

        if parts is None:
            self.ort = _session(bytes(payload), _options(settings))
            _native.count_plan_copy()
            return
        options = _options({**settings, **_IN_PLACE})
        if parts.file.nbytes:
            weights = np.frombuffer(parts.file, np.uint8)
            if weights.ctypes.data % _LARGEST_TYPE:
                _native.count_plan_copy()
                aligned = np.empty(weights.size // _LARGEST_TYPE + 1, np.uint64).view(np.uint8)
                aligned[: weights.size] = weights
                weights = aligned[: weights.size]
            options.add_external_initializers_from_files_in_memory(
                [WEIGHTS_FILE], [weights], [weights.size]
            )
            self.ort, self.weights = _session(parts.model, options), weights
        else:
            self.ort = _session(parts.model, options)


def _detached(model: memoryview) -> _Parts | None:
    """Take the large weights out of a model, and refer to them where they lie in it; None if all is to be copied."""
    try:
        detached = detach_weights(model, WEIGHTS_FILE)
    except WireError:
        return None  # ONNX Runtime will say what is wrong with it, in its own words
    # More than half of it copied, for weights that lie unaligned: all but all of it.
    if detached.kept > sum(weight.nbytes for weight in detached.weights):
        _native.count_plan_copy()
    return _Parts(detached.model, model if detached.weights else model[:0])


def _options(settings: Mapping[str, str]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    for key, value in settings.items():
        options.add_session_config_entry(key, value)
    options.log_severity_level = _SILENT
    # As many threads as torch was told to use. Left to itself ONNX Runtime takes all cores and pins its
    # threads, which fails noisily in containers.
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    return options


def _session(model: bytes, options: Any) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    # It keeps the bytes for a provider fallback that is switched off above.
    vars(session).pop("_model_bytes", None)
    return session

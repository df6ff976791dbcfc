"""Opens ONNX Runtime sessions over a model whose weights stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import _native
from .onnx_int8 import int8_settings
from .onnx_weights import TYPES, DetachedModel, Weight, detach_weights
from .wire import WireError

if TYPE_CHECKING:
    import numpy as np

# An external file must exist, even where its contents are given otherwise. What wants to read a weight in it finds
# nothing and fails, which is how we learn that the weight has to be in the model.
_FOLDER, _FILE = "/dev", "null"
# The name by which a model refers to the weights behind it: docs/engine-record.md.
WEIGHTS_FILE = "weights"
_ALIGNMENT = 64  # of the weights behind a model, to the beginning of the payload
_LARGEST_TYPE = 8  # bytes of a number
_IN_PLACE: Mapping[str, str] = {"session.use_external_initializer_file_buffers_directly": "1"}
_WITHOUT_COPIES: Mapping[str, str] = {"session.disable_prepacking": "1"}
_SILENT = 4  # log severity "fatal": what goes wrong is in the exception that we raise


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
        self.weights: Sequence[Any] = ()
        if model_size is None or model_size == len(payload):
            detached = _detach(payload, tables_only=False)
            model = detached and detached.model
        else:
            detached = None
            model = bytes(payload[:model_size])
        every: Sequence[Mapping[str, str]] = int8_settings(model)
        if not prepack:
            every = [{**settings, **_WITHOUT_COPIES} for settings in every]
        for settings in every:
            try:
                if model is not None and model_size not in (None, len(payload)):
                    self._open_external(model, payload, settings)
                else:
                    self._open(payload, detached, settings)
            except MemoryError:
                raise
            except Exception:
                if settings is every[-1]:
                    raise
            else:
                return

    def _open(
        self, model: memoryview, detached: DetachedModel | None, settings: Mapping[str, str]
    ) -> None:
        for tables_only in (False, True):
            if tables_only:
                detached = _detach(model, tables_only=True)
            if detached is None or not detached.weights:
                break
            if self._opens(model, detached, settings):
                # More than half of it copied, for weights that lie unaligned or are changed: all but all of it.
                if detached.kept > sum(weight.nbytes for weight in detached.weights):
                    _native.count_plan_copy()
                return
        if detached is None or detached.weights or detached.kept:  # else there is nothing in it
            _native.count_plan_copy()
        self.ort = _session(bytes(model), _options(settings))

    def _open_external(
        self, model: bytes, payload: memoryview, settings: Mapping[str, str]
    ) -> None:
        import numpy as np

        weights = np.frombuffer(payload, np.uint8)[-(-len(model) // _ALIGNMENT) * _ALIGNMENT :]
        if weights.ctypes.data % _LARGEST_TYPE:
            _native.count_plan_copy()
            aligned = np.empty(weights.size // _LARGEST_TYPE + 1, np.uint64).view(np.uint8)
            aligned[: weights.size] = weights
            weights = aligned[: weights.size]
        options = _options({**settings, **_IN_PLACE})
        options.add_external_initializers_from_files_in_memory(
            [WEIGHTS_FILE], [weights], [weights.size]
        )
        self.ort, self.weights = _session(model, options), [weights]

    def _opens(
        self, model: memoryview, detached: DetachedModel, settings: Mapping[str, str]
    ) -> bool:
        import onnxruntime

        options = _options(settings)
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", _FOLDER
        )
        weights = []
        for weight in detached.weights:
            value = onnxruntime.OrtValue.ortvalue_from_numpy(_view(model, weight))
            options.add_initializer(weight.name, value)
            weights.append(value)
        try:
            self.ort, self.weights = _session(detached.model, options), weights
        except (
            Exception
        ):  # it reads a weight, or the model is no good: which it is, a copy will tell
            return False
        return True


def _detach(model: memoryview, *, tables_only: bool) -> DetachedModel | None:
    def is_aligned(weight: Weight) -> bool:
        return bool(_view(model, weight).flags.aligned)

    try:
        return detach_weights(model, _FILE, is_aligned, tables_only=tables_only)
    except WireError:
        return None  # ONNX Runtime will say what is wrong with it, in its own words


def _view(model: memoryview, weight: Weight) -> np.ndarray[Any, Any]:
    """A weight as an array over the model's memory, which it keeps alive."""
    import numpy as np

    name, size = TYPES[weight.data_type]
    array = np.frombuffer(model, name, weight.nbytes // size, weight.start)
    return array.reshape(weight.shape)


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

"""Makes the payload of a delegate out of the subgraph that the partitioner gave it.

ExecuTorch finds a backend by its class name, which is the backend id in the file.
"""

from collections.abc import Sequence
from typing import Any

from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.export import ExportedProgram

from trt_export.delegate.arguments import read_call
from trt_export.delegate.blob import BlobAlias, BlobBinding, BlobMetadata, build_blob
from trt_export.delegate.header import DelegateHeader, build_payload
from trt_export.delegate.plan_buffer import buffer_of
from trt_export.engines.metadata import Binding
from trt_export.formats import DATA_FILE

# Of a plan in the file. ONNX Runtime's largest vectors are 64 bytes, and an onnxruntime plan aligns its model likewise.
_ALIGNMENT = 64


class TrtRuntimeBackend(BackendDetails):  # type: ignore[misc]
    """The delegate of trt-runtime: a small header in the payload, and the plan in named data."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: Sequence[Any]) -> PreprocessResult:
        """The header for a subgraph with one engine call, and its plan, which is not touched.

        Raises:
            LoweringError: as `read_call`, or the plan is no longer there.
        """
        call = read_call(edge_program)
        names = [spec.value.decode() for spec in compile_specs if spec.key == DATA_FILE]
        data = NamedDataStore()
        data.add_named_data(
            call.plan.key,
            buffer_of(call.plan),
            _ALIGNMENT,
            external_tag=names[0] if names else None,
        )
        return PreprocessResult(
            build_payload(
                DelegateHeader(
                    call.plan.data.nbytes, call.plan.sha256, call.record, call.inputs, call.outputs
                )
            ),
            data_store_output=data.get_named_data_store_output(),
        )


class TensorRTBackend(BackendDetails):  # type: ignore[misc]
    """The delegate of torch-tensorrt, which trt-runtime has too: metadata and plan inline in the payload."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: Sequence[Any]) -> PreprocessResult:
        """The inline blob for a subgraph with one engine call: a copy of the plan.

        Raises:
            LoweringError: as `read_call`, or the plan is no longer there.
        """
        call = read_call(edge_program)
        record = call.record
        metadata = BlobMetadata(
            io_bindings=(
                *(_blob_binding(binding, is_input=True) for binding in call.inputs),
                *(_blob_binding(binding, is_input=False) for binding in call.outputs),
            ),
            aliased_io=tuple(BlobAlias(a.output, a.input, a.kind) for a in record.aliased_io),
            hardware_compatible=record.hardware_compatible,
            device_id=record.device_index,
            serialized_metadata=record.metadata,
            target_platform=record.target_platform,
        )
        return PreprocessResult(build_blob(metadata, call.plan.data))


def _blob_binding(binding: Binding, *, is_input: bool) -> BlobBinding:
    shape = tuple(dim if isinstance(dim, int) else -1 for dim in binding.shape)
    return BlobBinding(binding.name, binding.dtype, shape, is_input)

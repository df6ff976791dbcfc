"""Reading `.pte` files: the same as ExecuTorch's own reader, on good files and on damaged ones."""

import struct
from collections.abc import Sequence

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import export

import trt_export
from export.programs import one_call, one_output_engine, rtx_plan
from trt_export.errors import FileFormatError
from trt_export.files.pte import Pte, is_pte, read_pte


def lowered(**config: object) -> bytes:
    programs = {"forward": one_call(), "other": one_call(one_output_engine(rtx_plan(3000)))}
    edge = trt_export.to_edge(programs, constant_methods={"length": 12, "names": ["a", "b"]})
    return edge.to_executorch(ExecutorchBackendConfig(**config)).buffer


@pytest.fixture(scope="module")
def segmented() -> bytes:
    return lowered()


def read(data: bytes) -> Pte:
    return read_pte(memoryview(data))


@pytest.mark.parametrize("extract", [True, False])
def test_the_same_as_executorchs_own_reader(extract: bool) -> None:
    data = lowered(extract_delegate_segments=extract)
    found, expected = read(data), deserialize_pte_binary(data).program
    assert [method.name for method in found.methods] == [
        plan.name for plan in expected.execution_plan
    ]
    for method, plan in zip(found.methods, expected.execution_plan, strict=True):
        assert list(method.planned_memory) == plan.non_const_buffer_sizes[1:]
        assert [name.split(".")[0] for name in method.operators] == [o.name for o in plan.operators]
        for values, indices in ((method.inputs, plan.inputs), (method.outputs, plan.outputs)):
            for value, index in zip(values, indices, strict=True):
                tensor = plan.values[index].val
                if value.kind == "tensor":
                    assert list(value.sizes or ()) == tensor.sizes
                    assert (value.dtype or "").upper().removesuffix("32") == tensor.scalar_type.name
        for delegate, other in zip(method.delegates, plan.delegates, strict=True):
            assert delegate.backend == other.id
            assert delegate.inline is not extract
            payload = data[delegate.offset : delegate.offset + delegate.size]
            assert payload == expected.backend_delegate_data[other.processed.index].data


def test_shapes_are_upper_bounds(segmented: bytes) -> None:
    (value,) = read(segmented).methods[0].inputs
    assert (value.kind, value.dtype, value.sizes, value.shape) == (
        "tensor",
        "float32",
        (16, 8),
        "bounded",
    )


def test_constant_methods_give_plain_values(segmented: bytes) -> None:
    methods = {method.name: method for method in read(segmented).methods}
    assert [value.kind for value in methods["length"].outputs] == ["int"]


def test_a_program_of_portable_operators_only() -> None:
    program = export(torch.nn.ReLU(), (torch.ones(2, dtype=torch.float16),))
    found = read(to_edge_transform_and_lower(program).to_executorch().buffer)
    (method,) = found.methods
    assert method.delegates == ()
    assert method.operators == ("aten::relu.out",)
    assert method.inputs[0].dtype == "float16"


def test_kinds_of_files() -> None:
    assert is_pte(b"\x38\0\0\0ET12more")
    assert not is_pte(b"PK\x03\x04ABCDEF")
    assert not is_pte(b"\0\0\0\0ET1")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a .pte"),
        (b"PK\x03\x04xxxxyyyy", "not a .pte: it begins with b'PK"),
        (b"\x10\0\0\0ET13" + bytes(64), "has the format b'ET13'; expected b'ET12'"),
        (
            b"\xff\xff\xff\xffET12" + bytes(64),
            "damaged or cut off: an offset points to byte 4294967295",
        ),
    ],
)
def test_what_is_no_pte(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read(data)


def test_a_file_that_is_cut_off_anywhere(segmented: bytes) -> None:
    for size in range(8, len(segmented), 97):
        with pytest.raises(FileFormatError):
            read(segmented[:size])
    with pytest.raises(FileFormatError, match="cut off: its header speaks of"):
        read(segmented[:-1])


def test_an_offset_before_the_start_is_not_taken_from_the_end() -> None:
    # The vtable of the root would be at byte 12 - 100.
    data = struct.pack("<I4sIi", 12, b"ET12", 0, 100) + bytes(200)
    with pytest.raises(FileFormatError, match="an offset points to byte -88"):
        read(data)


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_with_a_typed_error(
    segmented: bytes, data: st.DataObject
) -> None:
    program_size = read(segmented).program_size
    positions: Sequence[int] = data.draw(
        st.lists(st.integers(8, program_size - 1), min_size=1, max_size=5)
    )
    damaged = bytearray(segmented)
    for position in positions:
        damaged[position] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(damaged))
    except FileFormatError:
        return
    for method in found.methods:
        for delegate in method.delegates:
            assert delegate.offset >= 0
            assert delegate.offset + delegate.size <= len(damaged)

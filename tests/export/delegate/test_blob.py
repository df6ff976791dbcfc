"""The payload's format, byte for byte, and what becomes of damaged ones."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_export.delegate.blob import (
    BlobAlias,
    BlobBinding,
    BlobMetadata,
    build_blob,
    parse_blob,
    parse_header,
    parse_metadata,
)
from trt_export.errors import BlobError

PLAN = b"vtrt" + bytes(range(97))
BINDINGS = (
    BlobBinding("in_0", "float32", (-1, 8), True),
    BlobBinding("state", "float16", (2, 4), True),
    BlobBinding("out_0", "bool", (), False),
)
METADATA = BlobMetadata(BINDINGS, (), True, 3, '{"schema": 1}', "linux_x86_64")
ALIASED = BlobMetadata(BINDINGS, (BlobAlias("out_0", "state", "kv_cache_update"),))


def test_the_golden_blob() -> None:
    text = (
        b'{"io_bindings":[{"name":"in_0","dtype":"float32","shape":[-1,8],"is_input":true},'
        b'{"name":"state","dtype":"float16","shape":[2,4],"is_input":true},'
        b'{"name":"out_0","dtype":"bool","shape":[],"is_input":false}],'
        b'"hardware_compatible":true,"device_id":3,"serialized_metadata":"{\\"schema\\": 1}",'
        b'"target_platform":"linux_x86_64"}'
    )
    offset = 32 + len(text)
    padding = -offset % 16
    expected = (
        struct.pack("<4sIIIQ", b"TR01", 32, len(text), offset + padding, len(PLAN))
        + b"\x01\0\0\0\0\0\0\0"
        + text
        + bytes(padding)
        + PLAN
    )
    assert build_blob(METADATA, PLAN) == expected


def test_aliased_outputs_change_the_magic_and_come_right_after_the_bindings() -> None:
    blob = build_blob(ALIASED, PLAN)
    assert blob[:4] == b"TR02"
    size = struct.unpack_from("<I", blob, 8)[0]
    text = blob[32 : 32 + size]
    assert list(json.loads(text)) == [
        "io_bindings",
        "aliased_io",
        "hardware_compatible",
        "device_id",
        "serialized_metadata",
        "target_platform",
    ]
    assert b'],"aliased_io":[{"output":"out_0","input":"state","kind":"kv_cache_update"}],' in text


@pytest.mark.parametrize("metadata", [METADATA, ALIASED, BlobMetadata(())])
@pytest.mark.parametrize("extra", range(17))
def test_what_was_written_is_read(metadata: BlobMetadata, extra: int) -> None:
    padded = BlobMetadata(**{**vars(metadata), "target_platform": "x" * extra})
    blob = build_blob(padded, PLAN)
    found, plan = parse_blob(blob)
    assert found == padded
    assert bytes(plan) == PLAN
    assert (len(blob) - len(PLAN)) % 16 == 0


def test_the_plan_is_not_copied_by_reading() -> None:
    blob = bytearray(build_blob(METADATA, PLAN))
    _, plan = parse_blob(blob)
    blob[-1] ^= 0xFF
    assert plan[-1] == blob[-1]


def header(**fields: int | bytes) -> bytes:
    values = {
        "magic": b"TR01",
        "at": 32,
        "size": 2,
        "engine_at": 48,
        "engine": 16,
        "reserved": b"\x01",
    }
    return struct.pack("<4sIIIQ8s", *{**values, **fields}.values())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"magic": b"TR03"}, "begins with b'TR01' or b'TR02', found b'TR03'"),
        ({"at": 31}, "metadata begins inside its header, at byte 31"),
        ({"at": 0}, "inside its header"),
        ({"engine_at": 49}, "49 is not a multiple of 16"),
        ({"size": 17}, "metadata ends at byte 49, behind its engine's start at 48"),
        ({"at": 2**32 - 1, "size": 2**32 - 1}, "metadata ends at byte 8589934590"),
        ({"engine_at": 16}, "behind its engine's start"),
        ({"engine": 17}, "ends at byte 65, the blob at 64: it is cut off"),
        ({"engine": 2**64 - 1}, "cut off"),
        ({"engine": 2**64 - 48}, "cut off"),
        ({"engine": 15}, "ends at byte 63, the blob goes on to 64"),
    ],
)
def test_a_header_that_contradicts_the_blob(fields: dict[str, int | bytes], message: str) -> None:
    parse_header(header(), 64)
    with pytest.raises(BlobError, match=message):
        parse_header(header(**fields), 64)


@pytest.mark.parametrize("size", [0, 1, 31])
def test_a_blob_shorter_than_its_header(size: int) -> None:
    with pytest.raises(BlobError, match=f"has {size} bytes in all"):
        parse_blob(bytes(size))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"io_bindings": None}, "'io_bindings' in a blob's metadata must be a list"),
        ({"io_bindings": [3]}, "must be an object, found 3"),
        ({"io_bindings": [{"is_input": True}]}, "'name' in"),
        ({"io_bindings": [{"name": "x"}]}, "'is_input' in"),
        ({"io_bindings": [{"name": "x", "is_input": 1}]}, "'is_input' in .* of type bool, found 1"),
        ({"io_bindings": [{"name": "x", "is_input": True, "shape": [1.0]}]}, "sizes or -1"),
        ({"io_bindings": [{"name": "x", "is_input": True, "shape": [-2]}]}, "sizes or -1"),
        ({"device_id": True}, "'device_id' in .* of type int"),
        ({"hardware_compatible": "yes"}, "'hardware_compatible'"),
        ({"serialized_metadata": {}}, "'serialized_metadata'"),
        ({"aliased_io": [{"output": "a", "input": "b"}]}, "aliased_io names 'a'"),
    ],
)
def test_metadata_of_the_wrong_kind(change: dict[str, object], message: str) -> None:
    data = {**json.loads(METADATA.to_json()), **change}
    with pytest.raises(BlobError, match=message):
        parse_metadata(json.dumps(data).encode(), b"TR01")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"])
def test_metadata_that_is_no_json_object(text: bytes) -> None:
    with pytest.raises(BlobError):
        parse_metadata(text, b"TR01")


def test_the_magic_and_the_aliases_agree() -> None:
    with pytest.raises(BlobError, match="'TR01' must not have aliased_io, found 1"):
        parse_metadata(ALIASED.to_json(), b"TR01")
    with pytest.raises(BlobError, match="'TR02' must have aliased_io, found 0"):
        parse_metadata(METADATA.to_json(), b"TR02")


def test_blobs_of_other_writers_are_read() -> None:
    """Bindings without dtype and shape, an empty list of aliases, keys that are new."""
    data = {
        "io_bindings": [{"name": "x", "dtype": "", "shape": [], "is_input": True}],
        "aliased_io": [],
        "hardware_compatible": False,
        "weight_streaming": 3,
    }
    found = parse_metadata(json.dumps(data).encode(), b"TR01")
    assert found == BlobMetadata((BlobBinding("x", "", (), True),))


names = st.text(st.characters(exclude_characters="%@", codec="utf-8"), min_size=1, max_size=8)


@given(
    st.lists(st.tuples(names, st.lists(st.integers(-1, 9), max_size=3), st.booleans()), max_size=5),
    st.binary(max_size=64),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_any_metadata_survives(
    bindings: list[tuple[str, list[int], bool]], plan: bytes, text: str
) -> None:
    metadata = BlobMetadata(
        tuple(
            BlobBinding(name, "int8", tuple(shape), is_input)
            for name, shape, is_input in sorted(bindings, key=lambda entry: not entry[2])
        ),
        serialized_metadata=text,
        target_platform=text[::-1],
        device_id=-1,
    )
    found, kept = parse_blob(build_blob(metadata, plan))
    assert (found, bytes(kept)) == (metadata, plan)


@given(st.data())
def test_a_damaged_blob_is_read_or_refused_with_a_typed_error(data: st.DataObject) -> None:
    blob = bytearray(build_blob(ALIASED, PLAN))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(blob) - len(PLAN) - 1))
        blob[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(blob)))
    for candidate in (bytes(blob), bytes(blob[:cut])):
        try:
            _, plan = parse_blob(candidate)
        except BlobError:
            continue
        assert len(plan) <= len(candidate)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BlobError):
        parse_blob(data)

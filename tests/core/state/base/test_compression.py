"""Compressed snapshot files: smaller, the same content, and damage is found."""

from __future__ import annotations

import io
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import RestoreError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.files.block_file import BlockFileFormat, BlockReader, BlockWriter
from pystate.core.state.files.canonical import (
    FORMAT_VERSION,
    CanonicalHeader,
    CanonicalReader,
    CanonicalWriter,
    StateMetaInfoSnapshot,
)
from pystate.core.state.files.compression import LZ4, compress, decompress
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.operator.format import OPERATOR_STATE_FORMAT
from pystate.core.state.values.serializers import serializer_for
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, written

STATES = (StateMetaInfoSnapshot("count", "VALUE", serializer_for(Types.LONG()).snapshot()),)
HEADER = CanonicalHeader(Types.STRING(), KEY_ENCODING, 128, KeyGroupRange(10, 20), STATES, LZ4)
ENTRIES = [(f"\x01key-{number}".encode(), b"", b"-" * 100) for number in range(500)]
ITEMS = [b"-" * 1000, None, b"x", b""] * 20


def canonical(header: CanonicalHeader) -> bytes:
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, header)
    writer.write("count", 12, ENTRIES)
    writer.finish()
    return sink.getvalue()


def blocks(compression: str | None, format: BlockFileFormat = OPERATOR_STATE_FORMAT) -> bytes:
    sink = io.BytesIO()
    writer = BlockWriter(sink, format, {"a": 1}, block_bytes=2000, compression=compression)
    writer.write(0, 7, ITEMS)
    writer.finish()
    return sink.getvalue()


@given(st.binary(max_size=3000))
def test_what_was_compressed_comes_back(data):
    assert decompress(LZ4, compress(LZ4, data)) == data
    assert decompress(None, compress(None, data)) == data


def test_a_canonical_file_is_smaller_and_the_same():
    plain, small = canonical(replace(HEADER, compression=None)), canonical(HEADER)
    assert len(small) < len(plain) / 3
    for data in (plain, small):
        reader = CanonicalReader(io.BytesIO(data))
        assert list(reader.entries("count", 12)) == ENTRIES
        assert reader.entry_count("count") == 500
    assert struct.unpack_from(">H", plain, 8) == (FORMAT_VERSION,)
    assert struct.unpack_from(">H", small, 8) == (FORMAT_VERSION,)


def test_a_block_file_is_smaller_and_the_same():
    plain, small = blocks(None), blocks(LZ4)
    assert len(small) < len(plain) / 3
    for data in (plain, small):
        reader = BlockReader(io.BytesIO(data), OPERATOR_STATE_FORMAT)
        assert [item for block in reader.blocks for item in reader.read(block)] == ITEMS
    older = BlockFileFormat(OPERATOR_STATE_FORMAT.magic, 1, "a file")
    assert BlockReader(io.BytesIO(plain), older).header == {"a": 1}
    with pytest.raises(RestoreError, match="version 2"):
        BlockReader(io.BytesIO(small), older)


@pytest.mark.parametrize("codec", ["lz5", "", 7, []])
def test_a_codec_that_is_not_known_is_refused(codec):
    plain = {**HEADER.to_plain(), "compression": codec}
    with pytest.raises(ValueError, match="compression"):
        CanonicalHeader.from_plain(plain)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\x00\x00",
        struct.pack(">I", 5) + b"garbage",
        struct.pack(">I", (1 << 32) - 1) + compress(LZ4, b"x" * 100)[4:],
        struct.pack(">I", 99) + compress(LZ4, b"x" * 100)[4:],
        struct.pack(">I", 101) + compress(LZ4, b"x" * 100)[4:],
        compress(LZ4, b"xyz" * 100)[:-3],
    ],
)
def test_what_cannot_be_decompressed_is_an_error_and_takes_no_memory(stored):
    with pytest.raises(ValueError, match="compressed block"):
        decompress(LZ4, stored)


def test_state_moves_between_backends_and_settings(backend_name, tmp_path):
    harness = BackendHarness(backend_name)
    for key in range(200):
        harness.state(key).update(f"value {key} " * 20)
    harness.flush()
    (plain,) = harness.save()
    configuration = Configuration({"execution.checkpointing.snapshot-compression": "true"})
    backend = create_state_backend(
        backend_name.partition(",")[0],
        key_codec=KeyCodec(None),
        key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
        max_parallelism=MAX_PARALLELISM,
        working_directory=str(tmp_path),
        configuration=configuration,
    )
    backend.restore([io.BytesIO(plain)])
    small = written(backend.snapshot())
    backend.close()
    assert len(small) < len(plain) / 2
    again = harness.restored([small], 2)
    assert {key: again.state(key).value() for key in range(200)} == {key: f"value {key} " * 20 for key in range(200)}

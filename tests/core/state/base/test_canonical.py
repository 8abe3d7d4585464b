"""The canonical keyed-state file: what goes in comes out, or an error."""

from __future__ import annotations

import io
import random
import struct
import zlib
from typing import Any, BinaryIO

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.files.canonical import (
    BLOCK_BYTES,
    PIECE_BYTES,
    CanonicalHeader,
    CanonicalReader,
    CanonicalWriter,
    Entry,
    PieceSize,
    StateMetaInfoSnapshot,
    pieces_of,
)
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.core.state.values.serializers import serializer_for
from tests.memory import least_peak

HEADER = CanonicalHeader(
    key_type=Types.STRING(),
    key_encoding=KEY_ENCODING,
    max_parallelism=128,
    key_group_range=KeyGroupRange(10, 20),
    states=(
        StateMetaInfoSnapshot("count", "VALUE", serializer_for(Types.LONG()).snapshot()),
        StateMetaInfoSnapshot("last", "VALUE", serializer_for(None).snapshot()),
    ),
)
Content = dict[tuple[str, int], list[Entry]]
CONTENT: Content = {
    ("count", 10): [(b"\x01a", b"", b"\x01"), (b"\x01b", b"", b"\x02")],
    ("last", 10): [(b"\x01a", b"", b"\xa1x" * 30)],
    ("count", 17): [(f"\x01key-{i}".encode(), b"ns", bytes([i])) for i in range(40)],
}


def written(content: Content, block_bytes: int = 200) -> bytes:
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, HEADER, block_bytes=block_bytes)
    for (state, key_group), entries in content.items():
        writer.write(state, key_group, entries)
    writer.finish()
    assert writer.bytes == len(sink.getvalue())
    assert writer.entries == sum(map(len, content.values()))
    return sink.getvalue()


def read(data: bytes) -> tuple[CanonicalHeader, Content]:
    reader = CanonicalReader(io.BytesIO(data))
    content = {}
    for key_group in reader.key_groups():
        for state in reader.header.states:
            entries = list(reader.entries(state.name, key_group))
            if entries:
                content[state.name, key_group] = entries
    return reader.header, content


@pytest.mark.parametrize("block_bytes", [1, 200, 1 << 20])
def test_what_is_written_is_read_whatever_the_block_size(block_bytes: int) -> None:
    assert read(written(CONTENT, block_bytes)) == (HEADER, CONTENT)


def lengths(data: bytes) -> dict[int, list[int]]:
    """Return how long the blocks of each key group of the first state are."""
    reader = CanonicalReader(io.BytesIO(data))
    return {group: [block.length for block in blocks] for (_, group), blocks in reader._blocks.items()}


def test_blocks_stay_small_whatever_comes_together() -> None:
    entries = [(b"\x01%d" % number, b"", bytes(900 if number % 7 == 6 else 1)) for number in range(5_000)]
    piece = [part for entry in entries for part in entry]
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, HEADER, block_bytes=1_000)
    writer.write_pieces("count", 10, [piece[:24], piece[24:]])  # which is far larger than what is wanted
    writer.write_parts("count", 11, piece)
    writer.finish()
    reader = CanonicalReader(io.BytesIO(sink.getvalue()))
    assert list(reader.entries("count", 10)) == list(reader.entries("count", 11)) == entries
    found = lengths(sink.getvalue())
    assert max(found[10] + found[11]) < 2_000 + 900
    assert min(len(found[10]), len(found[11])) > 600


def test_blocks_of_entries_that_come_one_by_one_are_about_as_large_as_they_shall_be() -> None:
    entries = [(b"\x01%d" % number, b"", bytes(300)) for number in range(5_000)]
    found = lengths(written({("count", 10): entries}, BLOCK_BYTES))[10]
    assert len(found) > 3
    assert BLOCK_BYTES < min(found[:-1])
    assert max(found) < BLOCK_BYTES + 2 * PIECE_BYTES


def test_pieces_weigh_about_the_same_however_large_entries_are() -> None:
    entries = [(b"k", b"", bytes(size)) for size in [1] * 4_000 + [1 << 18] * 200 + [1] * 20]
    size, pieces = PieceSize(), []
    for parts in pieces_of(entries, size):
        pieces.append((len(parts) // 3, sum(map(len, parts))))
        size.took(*pieces[-1])
    counts = [count for count, _ in pieces]
    assert sum(counts) == len(entries)
    assert max(counts) > 100
    assert counts.count(1) > 50, "one at a time where they are large"
    assert max(weight for count, weight in pieces[:10]) < 2 * PIECE_BYTES
    size.count = 200
    size.start()
    assert next(pieces_of(entries, size)) == [b"k", b"", b"\0"] * 32, "not many at first: the next ones may be large"


def test_an_empty_file_has_a_header_and_nothing_else() -> None:
    assert read(written({})) == (HEADER, {})


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["count", "last"]), st.integers(10, 20)),
        st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=3), st.binary(max_size=300)), min_size=1, max_size=9),
    )
)
def test_any_content_is_read_back(content: Content) -> None:
    assert read(written(content))[1] == content


class _Counting(io.BytesIO):
    fetched = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.fetched += len(data)
        return data


def test_a_reader_fetches_only_the_key_groups_it_needs() -> None:
    big: Content = {("count", group): [(b"k" * 100, b"", b"v" * 10_000)] for group in range(10, 21)}
    file = _Counting(written(big))
    reader = CanonicalReader(file)
    assert list(reader.entries("count", 15)) == big["count", 15]
    assert reader.key_groups() == list(range(10, 21))
    assert reader.entry_count("count") == 11
    assert file.fetched < 12_000


class _Trickle(io.RawIOBase):
    """A sink that takes seven bytes at a time."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data[:7])
        return min(7, len(data))


def test_a_sink_that_takes_little_at_a_time_gets_everything() -> None:
    sink = _Trickle()
    target: BinaryIO = sink  # type: ignore[assignment]
    writer = CanonicalWriter(target, HEADER, block_bytes=200)
    for (state, key_group), entries in CONTENT.items():
        writer.write(state, key_group, entries)
    writer.finish()
    assert sink.data == written(CONTENT)


def test_each_flipped_bit_is_noticed() -> None:
    data = written(CONTENT)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(CorruptSnapshotError):
            read(bytes(damaged))


def test_each_truncation_and_each_addition_is_noticed() -> None:
    data = written(CONTENT)
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            read(data[:length])
    for added in (b"\x00", data[-40:], data):
        with pytest.raises(CorruptSnapshotError):
            read(data + added)


@given(st.randoms(use_true_random=False))
def test_swapped_cut_or_doubled_parts_are_noticed(rng: random.Random) -> None:
    data = written(CONTENT)
    a, b, c = sorted(rng.sample(range(len(data) + 1), 3))
    for damaged in (data[:a] + data[b:], data[:b] + data[a:], data[:a] + data[b:c] + data[a:b] + data[c:]):
        if damaged != data:
            with pytest.raises(CorruptSnapshotError):
                read(damaged)


def test_a_file_that_claims_huge_lengths_costs_no_memory() -> None:
    data = written(CONTENT)
    liars = [
        data[:10] + struct.pack(">I", 0xFFFFFFFF) + data[14:],  # header length
        data[:-32] + struct.pack(">QI", 2**63, 0xFFFFFFFF) + data[-20:],  # index offset and length
    ]

    def read_all() -> None:
        for liar in liars:
            with pytest.raises(CorruptSnapshotError):
                read(liar)

    assert least_peak(read_all) < 1_000_000


def test_an_index_without_one_of_the_blocks_is_refused() -> None:
    data = written(CONTENT)
    index_offset, index_length = struct.unpack_from(">QI", data, len(data) - 32)
    rows = msgpack.unpackb(data[index_offset : index_offset + index_length])
    for missing in range(0, len(rows), 5):
        index = msgpack.packb(rows[:missing] + rows[missing + 5 :])
        (header_length,) = struct.unpack_from(">I", data, 10)
        trailer = struct.pack(">QIII", index_offset, len(index), zlib.crc32(index), header_length)
        forged = data[:index_offset] + index + trailer + struct.pack(">I", zlib.crc32(trailer)) + data[-8:]
        with pytest.raises(CorruptSnapshotError, match="gaps"):
            read(forged)


def test_bytes_that_are_no_such_file_are_refused() -> None:
    for data in (b"", b"PK\x03\x04" + bytes(500), bytes(1000)):
        with pytest.raises(CorruptSnapshotError):
            CanonicalReader(io.BytesIO(data))


def test_a_newer_version_is_refused_as_such() -> None:
    data = written({})
    (header_length,) = struct.unpack_from(">I", data, 10)
    body = data[:8] + struct.pack(">H", 4) + data[10 : 14 + header_length]
    newer = body + struct.pack(">I", zlib.crc32(body)) + data[18 + header_length :]
    with pytest.raises(RestoreError, match="version 4"):
        CanonicalReader(io.BytesIO(newer))


def test_key_groups_outside_the_range_and_unknown_states_are_refused() -> None:
    writer = CanonicalWriter(io.BytesIO(), HEADER)
    with pytest.raises(SnapshotError, match="Key group 21"):
        writer.write("count", 21, [(b"a", b"", b"b")])
    with pytest.raises(SnapshotError, match="'nope'"):
        list(CanonicalReader(io.BytesIO(written(CONTENT))).entries("nope", 10))

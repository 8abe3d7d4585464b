"""The operator-state file and the files of raw state: what goes in comes out, or an error."""

from __future__ import annotations

import io
import random
from typing import Any, BinaryIO

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.files.block_file import BlockWriter
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.core.state.operator.format import (
    OPERATOR_STATE_FORMAT,
    OperatorStateInfo,
    OperatorStateMode,
    OperatorStateReader,
    write_operator_state,
)
from pystate.core.state.operator.raw_state import (
    RAW_KEYED_FORMAT,
    RAW_OPERATOR_FORMAT,
    RawKeyedStateWriter,
    RawOperatorStateWriter,
    RawStateSnapshot,
    read_raw_state,
)
from pystate.core.state.values.serializers import serializer_for

LONG = serializer_for(Types.LONG()).snapshot()
Content = dict[str, tuple[OperatorStateMode, list[tuple[bytes | None, ...]]]]
CONTENT: Content = {
    "buffer": (OperatorStateMode.SPLIT_DISTRIBUTE, [(bytes([i]) * (i + 1),) for i in range(30)]),
    "offsets": (OperatorStateMode.UNION, [(b"x",), (b"",)]),
    "rules": (OperatorStateMode.BROADCAST, [(b"\x01a", b"1"), (b"\x01b", None), (b"\x01c", b"")]),
    "empty": (OperatorStateMode.SPLIT_DISTRIBUTE, []),
}


def info(name: str, mode: OperatorStateMode, count: int) -> OperatorStateInfo:
    encoding = KEY_ENCODING if mode is OperatorStateMode.BROADCAST else None
    return OperatorStateInfo(name, mode, count, LONG, None, encoding)


def written(content: Content, block_bytes: int = 40) -> bytes:
    sink = io.BytesIO()
    states = [
        (info(name, mode, len(entries)), [item for entry in entries for item in entry])
        for name, (mode, entries) in content.items()
    ]
    write_operator_state(sink, states, block_bytes=block_bytes)
    return sink.getvalue()


def read(data: bytes) -> Content:
    reader = OperatorStateReader(io.BytesIO(data), "there")
    return {name: (state.mode, list(reader.entries(name, 0, state.entries))) for name, state in reader.states.items()}


@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 20])
def test_what_is_written_is_read(block_bytes: int) -> None:
    assert read(written(CONTENT, block_bytes)) == CONTENT


def test_a_file_without_states_is_a_file() -> None:
    assert read(written({})) == {}


modes = st.sampled_from(OperatorStateMode)
items = st.binary(max_size=50)


@st.composite
def contents(draw: Any) -> Content:
    content: Content = {}
    for name in draw(st.lists(st.text(min_size=1, max_size=5), max_size=4, unique=True)):
        mode = draw(modes)
        entry = st.tuples(items, st.none() | items) if mode is OperatorStateMode.BROADCAST else st.tuples(items)
        content[name] = (mode, draw(st.lists(entry, max_size=20)))
    return content


@given(contents(), st.integers(1, 200))
def test_any_content_comes_back(content: Content, block_bytes: int) -> None:
    assert read(written(content, block_bytes)) == content


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_run_of_elements_comes_back_alone(one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    reader = OperatorStateReader(io.BytesIO(written(CONTENT)))
    assert list(reader.entries("buffer", start, stop)) == CONTENT["buffer"][1][start:stop]


class CountingFile(io.BytesIO):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def test_a_subtask_reads_the_blocks_with_its_elements_only() -> None:
    big: Content = {"a": (OperatorStateMode.SPLIT_DISTRIBUTE, [(bytes(1000),) for _ in range(1000)])}
    data = written(big, 10_000)
    file = CountingFile(data)
    reader = OperatorStateReader(file)
    before = file.count
    assert len(list(reader.entries("a", 500, 505))) == 5
    assert before < 2000
    assert file.count - before < 25_000


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 31), (5, 4)])
def test_elements_that_are_not_there_are_an_error(bounds: tuple[int, int]) -> None:
    reader = OperatorStateReader(io.BytesIO(written(CONTENT)), "there")
    with pytest.raises(CorruptSnapshotError, match="no entries"):
        list(reader.entries("buffer", *bounds))
    with pytest.raises(CorruptSnapshotError, match="'unknown'"):
        list(reader.entries("unknown", 0, 0))


def raw_file(parts: dict[int, bytes]) -> bytes:
    sink = io.BytesIO()
    RawStateSnapshot(RAW_KEYED_FORMAT, sorted(parts.items())).write(sink, block_bytes=16)
    return sink.getvalue()


def read_raw(data: bytes) -> dict[int, bytes]:
    found = read_raw_state(io.BytesIO(data), RAW_KEYED_FORMAT, range(200), "there")
    return {number: stream.read() for number, stream in found}


RAW = {3: b"", 5: b"abc" * 20, 130: bytes(16)}
FILES = {"operator": (written(CONTENT), lambda data: read(data)), "raw": (raw_file(RAW), lambda data: read_raw(data))}


@pytest.mark.parametrize("kind", FILES)
def test_every_flipped_bit_is_noticed(kind: str) -> None:
    data, reader = FILES[kind]
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises((CorruptSnapshotError, RestoreError)) as raised:
                reader(bytes(damaged))
            assert raised.value.where == "there"
            # a flipped version may look like a newer one; all else is damage
            assert position in (8, 9) or isinstance(raised.value, CorruptSnapshotError)


@pytest.mark.parametrize("kind", FILES)
def test_every_truncation_and_addition_is_noticed(kind: str) -> None:
    data, reader = FILES[kind]
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            reader(data[:length])
    with pytest.raises(CorruptSnapshotError):
        reader(data + b"\0")


@pytest.mark.parametrize("kind", FILES)
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_no_such_file(kind: str, data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        FILES[kind][1](data)


def test_files_of_two_blocks_that_changed_places_are_noticed() -> None:
    data = written({"a": (OperatorStateMode.UNION, [(bytes([i]) * 20,) for i in range(4)])}, 20)
    reader = OperatorStateReader(io.BytesIO(data))
    first, second, *_ = reader._reader.blocks
    swapped = bytearray(data)
    swapped[first.offset : first.offset + first.length] = data[second.offset : second.offset + second.length]
    swapped[second.offset : second.offset + second.length] = data[first.offset : first.offset + first.length]
    assert first.length == second.length
    with pytest.raises(CorruptSnapshotError):
        read(bytes(swapped))


def file_with(header: Any, blocks: list[tuple[int, int, list[bytes | None]]]) -> bytes:
    sink = io.BytesIO()
    writer = BlockWriter(sink, OPERATOR_STATE_FORMAT, header)
    for section, part, found in blocks:
        writer.write(section, part, found)
    writer.finish()
    return sink.getvalue()


ONE = info("a", OperatorStateMode.UNION, 1).to_plain()
BROADCAST = info("a", OperatorStateMode.BROADCAST, 1).to_plain()


@pytest.mark.parametrize(
    ("header", "blocks"),
    [
        ({}, []),
        ({"states": 1}, []),
        ({"states": [1]}, []),
        ({"states": [ONE | {"name": 1}]}, [(0, 0, [b""])]),
        ({"states": [ONE | {"mode": "SPLIT"}]}, [(0, 0, [b""])]),
        ({"states": [ONE | {"entries": -1}]}, []),
        ({"states": [ONE | {"entries": 2}]}, [(0, 0, [b""])]),
        ({"states": [ONE | {"serializer": None}]}, [(0, 0, [b""])]),
        ({"states": [ONE | {"key_encoding": "x"}]}, [(0, 0, [b""])]),
        ({"states": [BROADCAST | {"key_encoding": None}]}, [(0, 0, [b"", b""])]),
        ({"states": [ONE, ONE]}, [(0, 0, [b""]), (1, 0, [b""])]),
        ({"states": [ONE]}, [(1, 0, [b""])]),
        ({"states": [ONE]}, [(0, 1, [b""])]),
        ({"states": [ONE]}, [(0, 0, [None])]),
        ({"states": [BROADCAST]}, [(0, 0, [b""]), (0, 0, [b""])]),
        ({"states": [BROADCAST]}, [(0, 0, [None, b""])]),
    ],
)
def test_a_header_that_does_not_fit_its_blocks_is_damage(header: Any, blocks: Any) -> None:
    with pytest.raises(CorruptSnapshotError):
        read(file_with(header, blocks))


def test_bodies_changed_in_one_place_with_right_checksums_are_read_or_refused() -> None:
    choice = random.Random(1)
    plain = msgpack.packb({"states": [ONE]})
    for _ in range(500):
        damaged = bytearray(plain)
        damaged[choice.randrange(len(plain))] = choice.randrange(256)
        try:
            header = msgpack.unpackb(bytes(damaged), strict_map_key=False)
            data = file_with(header, [(0, 0, [b""])])
        except (ValueError, TypeError):
            continue
        try:
            read(data)
        except CorruptSnapshotError:
            pass


def test_a_newer_version_names_both_versions() -> None:
    data = bytearray(written(CONTENT))
    data[9] = 7
    with pytest.raises(RestoreError, match="version 7; this pystate reads up to version 2"):
        read(bytes(data))


class ShortWrites(io.RawIOBase):
    """Takes a few bytes at a time, as a raw file may."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data[:7])
        return min(7, len(data))


def test_a_sink_that_takes_a_few_bytes_at_a_time_gets_them_all() -> None:
    sink: Any = ShortWrites()
    RawStateSnapshot(RAW_KEYED_FORMAT, sorted(RAW.items())).write(sink, block_bytes=16)
    assert sink.data == raw_file(RAW)


def test_raw_keyed_state_is_read_by_key_group() -> None:
    assert read_raw(raw_file(RAW)) == RAW
    found = read_raw_state(io.BytesIO(raw_file(RAW)), RAW_KEYED_FORMAT, range(4, 100))
    assert [(group, stream.read()) for group, stream in found] == [(5, RAW[5])]


def test_raw_state_of_the_other_kind_is_refused() -> None:
    with pytest.raises(CorruptSnapshotError, match="raw operator state"):
        list(read_raw_state(io.BytesIO(raw_file(RAW)), RAW_OPERATOR_FORMAT, range(9)))


def put(stream: BinaryIO, data: bytes) -> BinaryIO:
    stream.write(data)
    return stream


def test_key_groups_ascend_and_are_the_subtasks_own() -> None:
    output = RawKeyedStateWriter(KeyGroupRange(10, 20))
    for foreign in (9, 21):
        with pytest.raises(StateError, match="10..20"):
            output.start_new_key_group(foreign)
    first = put(output.start_new_key_group(12), b"twelve")
    for late in (12, 11):
        with pytest.raises(StateError, match="ascend"):
            output.start_new_key_group(late)
    put(output.start_new_key_group(20), b"twenty")
    with pytest.raises(ValueError, match="closed"):
        first.write(b"late")
    snapshot = output.snapshot()
    assert snapshot is not None
    assert snapshot.parts == [(12, b"twelve"), (20, b"twenty")]
    with pytest.raises(PystateError, match="snapshot_state only"):
        output.start_new_key_group(20)


def test_partitions_are_counted_and_an_output_nobody_used_is_no_state() -> None:
    output = RawOperatorStateWriter()
    assert RawOperatorStateWriter().snapshot() is None
    put(output.start_new_partition(), b"a")
    output.start_new_partition()
    last = put(output.start_new_partition(), b"c")
    snapshot = output.snapshot()
    assert snapshot is not None
    assert snapshot.parts == [(0, b"a"), (1, b""), (2, b"c")]
    with pytest.raises(ValueError, match="closed"):
        last.write(b"late")

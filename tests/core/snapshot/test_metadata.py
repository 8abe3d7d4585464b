from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle, StateMetaInfo
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import METADATA_VERSION, read_metadata, write_metadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState, TaskState
from pystate.core.state.operator.format import OperatorStateMode

MakeMetadata = Callable[..., CheckpointMetadata]
HEAD = struct.Struct(">8sIQ")
SPLIT = StateMetaInfo(OperatorStateMode.SPLIT_DISTRIBUTE, 3)
NOT_KEYED = OperatorSubtaskState(
    operator_state=[
        OperatorStateHandle(
            {"buffer": SPLIT, "offsets": StateMetaInfo(OperatorStateMode.UNION, 0)}, "operator", FileStateHandle("op", 9, 7)
        )
    ],
    raw_keyed_state=[KeyedStateHandle(0, 127, "raw", FileStateHandle("raw", 5, 6))],
    raw_operator_state=[OperatorStateHandle({"_default_": SPLIT}, "raw", ByteStreamStateHandle(b"xyz"))],
)


def framed(body: bytes, version: int = METADATA_VERSION, length: int | None = None) -> bytes:
    data = HEAD.pack(b"PYSTMETA", version, len(body) if length is None else length) + body
    return data + struct.pack(">I", zlib.crc32(data))


def body_of(metadata: CheckpointMetadata) -> dict[str, object]:
    body: dict[str, object] = msgpack.unpackb(write_metadata(metadata)[HEAD.size : -4], strict_map_key=False)
    return body


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source_position": None, "epoch": -1, "operators": []},
        {"checkpoint_type": CheckpointType.SAVEPOINT, "format": SavepointFormatType.NATIVE},
        {"parent": "file:/sp/savepoint-83f146-b2380c89c7cf", "job_name": "Zählung 数"},
        {"operators": [OperatorState("map", "Map", 1, 128)]},
        {"operators": [OperatorState("sink", "Sink", 1, 128, subtasks={0: NOT_KEYED})]},
        {"configuration": {}},
    ],
)
def test_metadata_comes_back_as_it_was(make_metadata: MakeMetadata, changes: dict[str, object]) -> None:
    metadata = make_metadata(**changes)
    assert read_metadata(write_metadata(metadata), "here") == metadata


def test_bytes_are_the_same_whatever_order_subtasks_came_in(make_metadata: MakeMetadata) -> None:
    operator = make_metadata().operators[0]
    turned = OperatorState(**{**vars(operator), "subtasks": dict(reversed(operator.subtasks.items()))})
    assert write_metadata(make_metadata(operators=[turned])) == write_metadata(make_metadata())


def test_sizes_are_the_sums_of_the_handles(make_metadata: MakeMetadata) -> None:
    metadata = make_metadata()
    state = OperatorSubtaskState(
        [KeyedStateHandle(0, 3, "canonical", FileStateHandle("f", 10, 0))],
        [OperatorStateHandle({}, "operator", ByteStreamStateHandle(b"xyz"))],
        [KeyedStateHandle(0, 3, "raw", FileStateHandle("g", 100, 0))],
        [OperatorStateHandle({}, "raw", FileStateHandle("h", 1000, 0))],
    )
    assert (state.state_size, state.checkpointed_size) == (1113, 1113)
    assert (metadata.operators[0].state_size, metadata.state_size) == (200, 204)


def test_every_flipped_bit_is_noticed(make_metadata: MakeMetadata) -> None:
    data = write_metadata(make_metadata())
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptSnapshotError) as raised:
                read_metadata(bytes(damaged), "there")
            assert raised.value.where == "there"


def test_every_truncation_and_addition_is_noticed(make_metadata: MakeMetadata) -> None:
    data = write_metadata(make_metadata())
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            read_metadata(data[:length], "there")
    with pytest.raises(CorruptSnapshotError):
        read_metadata(data + b"\0", "there")


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_never_metadata(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        read_metadata(data, "there")


@given(st.binary(max_size=300))
def test_arbitrary_bodies_with_a_right_checksum_are_refused(body: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        read_metadata(framed(body), "there")


def test_bodies_changed_in_one_place_with_a_right_checksum_are_read_or_refused(make_metadata: MakeMetadata) -> None:
    body = write_metadata(make_metadata())[HEAD.size : -4]
    choice = random.Random(1)  # noqa: S311
    refused = 0
    for _ in range(3000):
        damaged = bytearray(body)
        damaged[choice.randrange(len(body))] = choice.randrange(256)
        try:
            read_metadata(framed(bytes(damaged)), "there")
        except CorruptSnapshotError:
            refused += 1
    assert refused > 1000


def test_hostile_lengths_take_no_memory() -> None:
    nested = b"\xdd\x00\x10\x00\x00" * 200_000  # a list of a million lists, of which the first is a list of a million, ...
    hostile = [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x81\xa1a" * 100_000,
        nested,
        b"\xdc\x20\x00" * 300_000,
    ]
    tracemalloc.start()
    try:
        for body in hostile:
            with pytest.raises(CorruptSnapshotError):
                read_metadata(framed(body), "there")
        with pytest.raises(CorruptSnapshotError):
            read_metadata(framed(b"", length=2**63), "there")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000


def test_lists_longer_than_any_of_ours_are_not_even_allocated(make_metadata: MakeMetadata) -> None:
    body = msgpack.packb(body_of(make_metadata()) | {"extra": [0] * 9000})
    with pytest.raises(CorruptSnapshotError, match="9000 exceeds"):
        read_metadata(framed(body), "there")


def test_a_newer_version_names_both_versions(make_metadata: MakeMetadata) -> None:
    data = framed(write_metadata(make_metadata())[HEAD.size : -4], version=9)
    with pytest.raises(RestoreError, match=r"version 9; this pystate reads up to version 3"):
        read_metadata(data, "there")


def test_a_flink_savepoint_is_called_by_its_name() -> None:
    with pytest.raises(CorruptSnapshotError, match="Apache Flink"):
        read_metadata(bytes.fromhex("4960672d00000006") + b"rest", "there")


def test_a_foreign_file_names_likely_causes() -> None:
    with pytest.raises(CorruptSnapshotError, match=r"\(1\).*\(2\).*\(3\)") as raised:
        read_metadata(b"PK\x03\x04 a zip file", "there")
    assert "b'PK" in raised.value.message


def test_entries_of_later_writers_are_left_alone(make_metadata: MakeMetadata) -> None:
    metadata = make_metadata()
    body = body_of(metadata) | {"watermarks": {"a": 1}, "timers": [1, 2]}
    assert read_metadata(framed(msgpack.packb(body)), "there") == metadata


LATER_ENTRIES = ("parent_id", "snapshot_id", "message", "code_fingerprint")


@pytest.mark.parametrize("key", LATER_ENTRIES)
def test_what_older_versions_did_not_write_is_none(make_metadata: MakeMetadata, key: str) -> None:
    body = body_of(make_metadata(**dict.fromkeys(LATER_ENTRIES, "text")))
    assert getattr(read_metadata(framed(msgpack.packb(body)), "there"), key) == "text"
    del body[key]
    assert getattr(read_metadata(framed(msgpack.packb(body)), "there"), key) is None
    with pytest.raises(CorruptSnapshotError, match=key):
        read_metadata(framed(msgpack.packb({**body, key: 5})), "there")


@pytest.mark.parametrize("key", [name for name in CheckpointMetadata.__dataclass_fields__ if name not in LATER_ENTRIES])
def test_each_missing_entry_is_named(make_metadata: MakeMetadata, key: str) -> None:
    body = body_of(make_metadata())
    del body[key]
    with pytest.raises(CorruptSnapshotError, match=repr(key)):
        read_metadata(framed(msgpack.packb(body)), "there")


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_id": -1},
        {"epoch": -2},
        {"epoch": "3"},
        {"checkpoint_type": "SNAPSHOT"},
        {"format": None},
        {"parallelism": 0},
        {"max_parallelism": 32769},
        {"job_id": 1},
        {"parent": 1},
        {"configuration": {"a": 1}},
        {"configuration": []},
        {"operators": {}},
        {"operators": [1]},
        {"source_position": []},
        {"source_position": {"query_id": "q", "epoch": 1, "sources": [1], "files": {"kind": "bytes", "data": b""}}},
        {"source_position": {"query_id": "q", "epoch": 1, "sources": [{"a": []}], "files": {"kind": "bytes", "data": b""}}},
        {"source_position": {"query_id": "q", "epoch": 1, "sources": [], "files": {"kind": "file", "path": "../x"}}},
    ],
)
def test_entries_of_wrong_type_or_range_are_refused(make_metadata: MakeMetadata, changes: dict[str, object]) -> None:
    with pytest.raises(CorruptSnapshotError):
        read_metadata(framed(msgpack.packb(body_of(make_metadata()) | changes)), "there")


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism": 129},
        {"parallelism": 1},  # it has two subtasks
        {"max_parallelism": 64},  # its state has 128 key groups
        {"key_type": "STRING"},
        {"subtasks": {"0": {}}},
        {"subtasks": {2: OperatorSubtaskState().to_plain()}},
    ],
)
def test_operators_whose_numbers_do_not_fit_are_refused(make_metadata: MakeMetadata, changes: dict[str, object]) -> None:
    body = body_of(make_metadata())
    operator = body["operators"][0] | changes  # type: ignore[index]
    with pytest.raises(CorruptSnapshotError):
        read_metadata(framed(msgpack.packb(body | {"operators": [operator]})), "there")


def test_two_operators_of_one_uid_are_refused(make_metadata: MakeMetadata) -> None:
    operators = make_metadata().operators * 2
    with pytest.raises(SnapshotError, match="same uid"):
        write_metadata(make_metadata(operators=operators))


@pytest.mark.parametrize("changes", [{"checkpoint_id": 2**70}, {"epoch": -5}, {"configuration": {"a": object()}}])
def test_what_could_not_be_read_back_is_not_written(make_metadata: MakeMetadata, changes: dict[str, object]) -> None:
    with pytest.raises(SnapshotError, match="can't be written"):
        write_metadata(make_metadata(**changes))


def test_the_largest_parallelism_can_be_written(
    make_operator: Callable[..., OperatorState], make_metadata: MakeMetadata
) -> None:
    metadata = make_metadata(operators=[make_operator("count", "Count", 4096, 32768)], max_parallelism=32768)
    assert read_metadata(write_metadata(metadata), "there") == metadata


@pytest.mark.parametrize(
    "changes",
    [
        {"operator_state": [{"kind": "bytes", "data": b""}]},
        {"operator_state": [NOT_KEYED.operator_state[0].to_plain() | {"states": [1]}]},
        {"operator_state": [NOT_KEYED.operator_state[0].to_plain() | {"states": {1: {"mode": "UNION", "count": 1}}}]},
        {"operator_state": [NOT_KEYED.operator_state[0].to_plain() | {"states": {"a": {"mode": "SPLIT", "count": 1}}}]},
        {"operator_state": [NOT_KEYED.operator_state[0].to_plain() | {"states": {"a": {"mode": "UNION", "count": -1}}}]},
        {"operator_state": [NOT_KEYED.operator_state[0].to_plain() | {"handle": {"kind": "file", "path": "../x"}}]},
        {"raw_operator_state": None},
        {"raw_keyed_state": [KeyedStateHandle(0, 128, "raw", FileStateHandle("raw", 5, 6)).to_plain()]},
    ],
)
def test_state_that_is_not_keyed_is_read_strictly(make_metadata: MakeMetadata, changes: dict[str, object]) -> None:
    operator = OperatorState("sink", "Sink", 1, 128, subtasks={0: NOT_KEYED}).to_plain()
    operator["subtasks"][0] |= changes
    with pytest.raises(CorruptSnapshotError):
        read_metadata(framed(msgpack.packb(body_of(make_metadata()) | {"operators": [operator]})), "there")


@pytest.mark.parametrize("key", ["keyed_state", "operator_state", "raw_keyed_state", "raw_operator_state"])
def test_each_missing_kind_of_state_is_named(make_metadata: MakeMetadata, key: str) -> None:
    operator = OperatorState("sink", "Sink", 1, 128, subtasks={0: NOT_KEYED}).to_plain()
    del operator["subtasks"][0][key]
    with pytest.raises(CorruptSnapshotError, match=repr(key)):
        read_metadata(framed(msgpack.packb(body_of(make_metadata()) | {"operators": [operator]})), "there")


def test_a_tasks_state_comes_back_as_it_was() -> None:
    task = TaskState({"sink": NOT_KEYED, "map": OperatorSubtaskState()})
    assert TaskState.from_packed(task.packed()) == task
    assert (task.state_size, task.checkpointed_size) == (17, 17)


SOUND = TaskState(
    {"count": OperatorSubtaskState([KeyedStateHandle(0, 127, "canonical", FileStateHandle("f", 1, 2))])}
).packed()


@pytest.mark.parametrize(
    "packed",
    [
        None,
        {"count": None},
        {"count": b""},
        {"count": b"\xc1"},
        {"count": msgpack.packb(5)},
        {"count": msgpack.packb([0] * 9000)},
        {"count": SOUND["count"][:-1]},
        {"count": SOUND["count"] + b"\0"},
        {"count": SOUND["count"].replace(b"\xa1f", b"\xa1.")},
    ],
)
def test_a_tasks_state_is_read_strictly(packed: object) -> None:
    assert TaskState.from_packed(SOUND)
    with pytest.raises(CorruptSnapshotError):
        TaskState.from_packed(packed)


def received(state: OperatorSubtaskState) -> OperatorSubtaskState:
    """Return a state as the driver has it from a slot."""
    return TaskState.from_packed(TaskState({"count": state}).packed()).operators["count"]


def test_what_slots_have_sent_makes_the_same_bytes(make_metadata: MakeMetadata) -> None:
    metadata = make_metadata()
    [operator] = metadata.operators
    came = {index: received(state) for index, state in reversed(operator.subtasks.items())}
    mixed = {**came, 0: operator.subtasks[0]}
    for subtasks in (came, mixed):
        sent = make_metadata(operators=[OperatorState(**{**vars(operator), "subtasks": subtasks})])
        assert sent == metadata
        assert write_metadata(sent) == write_metadata(metadata)


@pytest.mark.parametrize("changes", [{"max_parallelism": 64}, {"parallelism": 1}])
def test_what_slots_have_sent_fits_its_operator_or_is_not_written(
    make_metadata: MakeMetadata, changes: dict[str, int]
) -> None:
    [operator] = make_metadata().operators
    subtasks = {index: received(state) for index, state in operator.subtasks.items()}
    wrong = OperatorState(**{**vars(operator), "subtasks": subtasks, **changes})
    with pytest.raises(SnapshotError, match="can't be written"):
        write_metadata(make_metadata(operators=[wrong]))


def test_a_state_that_was_changed_is_written_as_it_is_now(make_metadata: MakeMetadata) -> None:
    [operator] = make_metadata().operators
    sent = OperatorState(**{**vars(operator), "subtasks": {i: received(one) for i, one in operator.subtasks.items()}})
    moved = make_metadata(operators=[sent.map_keyed_state(lambda one: replace(one, format="another"))])
    [read] = read_metadata(write_metadata(moved), "here").operators
    assert {handle.format for state in read.subtasks.values() for handle in state.keyed_state} == {"another"}


def test_any_text_of_the_configuration_and_of_people_comes_back(make_metadata):
    metadata = make_metadata(configuration={"a.key": "a\ud800b"}, message="\udcff", job_name="\ud800")

    assert read_metadata(write_metadata(metadata), "here") == metadata


def test_data_in_flight_makes_a_version_that_others_refuse(make_metadata: MakeMetadata) -> None:
    in_flight = InputChannelStateHandle([("s", 0), ("s", 1)], [ByteStreamStateHandle(b"12345")])
    operator = OperatorState("uid", "name", 2, 128, subtasks={1: OperatorSubtaskState(input_channel_state=in_flight)})
    metadata = make_metadata(operators=[operator])
    data = write_metadata(metadata)
    assert HEAD.unpack_from(data)[1] == 3
    assert read_metadata(data, "here") == metadata
    assert metadata.has_data_in_flight
    assert operator.has_state
    assert operator.state_size == 5
    assert HEAD.unpack_from(write_metadata(make_metadata()))[1] == METADATA_VERSION == 2


@pytest.mark.parametrize("upstream", [[["s"]], [["s", -1]], [[1, 0]], "s", None])
def test_data_in_flight_of_nobody_is_refused(make_metadata: MakeMetadata, upstream: object) -> None:
    plain = OperatorSubtaskState().to_plain() | {"input_channel_state": {"upstream": upstream, "handles": []}}
    with pytest.raises(CorruptSnapshotError):
        OperatorSubtaskState.from_plain(plain)

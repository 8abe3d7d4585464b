"""Which subtask gets which rows, in which order, and who gets barriers."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import ControlError
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import OwnSourceTransformation
from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, FrameKind, place_of, unpack_frame
from pystate.runtime.engines.real_time.slot.output.channel_selector import channel_selector
from pystate.runtime.engines.real_time.slot.output.record_writer import MOST_BYTES, RecordWriter, frame_sized, serialized
from pystate.runtime.plan.channels import JobChannels, TaskChannels
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing
from tests.runtime.plan.programs import connected, keyed, mapped, planned, printed, process

LONG = Types.LONG()
BARRIER = CheckpointBarrier(3, "file:/somewhere", 0, 1000)


class Sent:
    def __init__(self):
        self.frames = []

    def send(self, frame):
        self.frames.append((place_of(frame), unpack_frame(frame[PLACE_SIZE:])))


def numbers(parallelism=None, uid="numbers"):
    operator = SourceOperator(NumberSequenceSource(0, 9), LONG)
    return OwnSourceTransformation(uid, (), LONG, uid=uid, parallelism=parallelism, function=operator)


def target(parallelism, max_parallelism=128):
    return TaskChannels(parallelism, max_parallelism, 1, 0, (("sender", 0),), {})


def edge(routing, key=None):
    return OutputSpec(0, OutputKind.EDGE, "edge", LONG, key=key, target="target", routing=routing)


def batch(values):
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["value"])


def shares(selector, *batches):
    found = {}
    for one in batches:
        for subtask, rows in selector(one):
            found.setdefault(subtask, []).extend(rows.column(0).to_pylist())
    return found


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=60), st.integers(1, 9), st.integers(9, 300))
def test_each_row_gets_to_the_owner_of_its_key_group_in_order(values, parallelism, max_parallelism):
    select = channel_selector(edge(Routing.KEY, KeyColumn("value", LONG)), target(parallelism, max_parallelism), 0)
    codec = KeyCodec(LONG)
    given_out = []
    for subtask, rows in select(batch(values)):
        keys, groups = rows.column(0).to_pylist(), rows.column(KEY_GROUP_FIELD).to_pylist()
        assert groups == [codec.key_group(key, max_parallelism) for key in keys]
        assert {group * parallelism // max_parallelism for group in groups} == {subtask}
        places = [index for index, value in enumerate(values) if value in set(keys)]
        assert keys == [values[index] for index in places]
        given_out += keys
    assert Counter(given_out) == Counter(values)


@given(st.lists(st.integers(), min_size=1, max_size=8), st.integers(1, 4))
def test_few_rows_are_split_as_many_are(values, parallelism):
    """The same rows, often enough to be many: each owner gets those of the few, as often."""
    few, many = (channel_selector(edge(Routing.KEY, KeyColumn("value", LONG)), target(parallelism), 0) for _ in range(2))
    values = [value % (1 << 60) for value in values]
    repeated = shares(many, batch(values * 50))
    assert {owner: rows * 50 for owner, rows in shares(few, batch(values)).items()} == repeated


def test_groups_of_many_keys_are_forgotten_and_found_again(monkeypatch):
    monkeypatch.setattr("pystate.runtime.engines.real_time.slot.output.channel_selector._MOST_KNOWN_KEYS", 3)
    select = channel_selector(edge(Routing.KEY, KeyColumn("value", LONG)), target(4), 0)
    for first in range(0, 40, 5):
        assert Counter(
            value for rows in shares(select, batch(range(first, first + 5))).values() for value in rows
        ) == Counter(range(first, first + 5))


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        (Routing.FORWARD, {1: [0, 1, 2, 3, 4, 5, 6]}),
        (Routing.GLOBAL, {0: [0, 1, 2, 3, 4, 5, 6]}),
        (Routing.REBALANCE, {1: [0, 3, 6], 2: [1, 4], 0: [2, 5]}),
        (Routing.BROADCAST, {index: [0, 1, 2, 3, 4, 5, 6] for index in range(3)}),
    ],
)
def test_rows_without_a_key(routing, expected):
    assert shares(channel_selector(edge(routing), target(3), 1), batch(range(3)), batch(range(3, 7))) == expected


def test_shuffled_rows_are_all_there_and_a_partitioner_must_name_a_subtask():
    found = shares(channel_selector(edge(Routing.SHUFFLE), target(3), 0), batch(range(3000)))
    assert sorted(value for rows in found.values() for value in rows) == list(range(3000))
    assert min(len(rows) for rows in found.values()) > 500
    custom = channel_selector(edge(Routing.CUSTOM), target(2), 0)
    rows = batch(range(3)).append_column("__pystate_partition", pa.array([0, 1, 2], pa.int32()))
    with pytest.raises(ControlError, match="0 to 2 of a task with 2"):
        list(custom(rows))


def job():
    root = numbers()
    first = process(keyed(mapped(root, output_type=LONG), selector=abs, key_type=LONG), uid="first", output_type=LONG)
    printed(process(keyed(first, selector=abs, key_type=LONG), uid="second", output_type=LONG, parallelism=3), parallelism=3)
    return planned([root], types=[])


def test_what_is_for_the_own_slot_goes_by_no_relay_and_is_numbered_as_the_rest():
    plan = job()
    channels, sent, taken = JobChannels.of(plan), Sent(), []
    own = (1, 1)
    writer = RecordWriter(plan.task("numbers"), 1, channels, sent, lambda place: taken.append if place == own else None)
    (output,) = plan.task("numbers").outputs
    schema = output.schema()
    values = list(range(50))
    writer.write(output, pa.RecordBatch.from_arrays([pa.array(values, field.type) for field in schema], schema=schema))
    writer.broadcast_barrier(BARRIER)
    writer.broadcast_end_of_data()
    assert {place for place, _ in sent.frames} == {(1, 0)}
    assert [frame.sequence for frame in taken] == [0, 1, 2]
    assert [frame.kind for frame in taken] == [FrameKind.BATCH, FrameKind.BARRIER, FrameKind.END_OF_DATA]
    assert [unpack_frame(frame.packed) for frame in taken] == taken
    assert writer.sent_bytes == sum(len(frame.packed) for frame in taken) + sum(
        len(frame.packed) + PLACE_SIZE for _, frame in sent.frames
    )


def test_frames_are_numbered_in_each_channel_and_barriers_go_to_all():
    plan = job()
    channels, sent = JobChannels.of(plan), Sent()
    writer = RecordWriter(plan.task("numbers"), 1, channels, sent)
    (output,) = plan.task("numbers").outputs
    schema = output.schema()
    for _ in range(3):
        values = list(range(50))
        writer.write(output, pa.RecordBatch.from_arrays([pa.array(values, field.type) for field in schema], schema=schema))
    writer.broadcast_barrier(BARRIER)
    writer.broadcast_end_of_data()
    by_place = {}
    for place, frame in sent.frames:
        assert frame.channel == channels.tasks["first"].upstream.index(("numbers", 1))
        by_place.setdefault(place, []).append(frame)
    assert set(by_place) == {(1, 0), (1, 1)}
    for frames in by_place.values():
        assert [frame.sequence for frame in frames] == list(range(5))
        assert [frame.kind for frame in frames[3:]] == [FrameKind.BARRIER, FrameKind.END_OF_DATA]
        assert CheckpointBarrier.from_plain(frames[3].message()).checkpoint_id == BARRIER.checkpoint_id
    assert sum(frame.rows for _, frame in sent.frames) == 150


def test_places_and_channels_of_a_job():
    channels = JobChannels.of(job())
    assert channels.partitions == (2, 2, 3)
    assert channels.tasks["second"].upstream == (("first", 0), ("first", 1))
    assert channels.tasks["second"].places() == [(2, 0), (2, 1), (2, 2)]
    assert [channels.owner(place) for place in channels.tasks["second"].places()] == [("second", n) for n in range(3)]
    with pytest.raises(KeyError):
        channels.owner((2, 3))


def test_two_edges_between_two_tasks_are_one_channel():
    root = numbers()
    left = keyed(mapped(root, output_type=LONG, uid="a"), selector=abs, key_type=LONG)
    right = keyed(mapped(root, output_type=LONG, uid="b"), selector=abs, key_type=LONG)
    printed(connected(left, right, uid="both", output_type=LONG))
    channels = JobChannels.of(planned([root], types=[]))
    assert channels.tasks["both"].upstream == (("numbers", 0), ("numbers", 1))
    assert set(channels.tasks["both"].schemas) == {0, 1}


def test_the_next_level_but_one_is_reached_too():
    root = numbers()
    first = process(
        keyed(mapped(root, output_type=LONG, uid="a"), selector=abs, key_type=LONG), uid="first", output_type=LONG
    )
    left = keyed(first, selector=abs, key_type=LONG)
    right = keyed(mapped(root, output_type=LONG, uid="b"), selector=abs, key_type=LONG)
    printed(connected(left, right, uid="both", output_type=LONG))
    plan = planned([root], types=[])
    channels, sent = JobChannels.of(plan), Sent()
    RecordWriter(plan.task("numbers"), 0, channels, sent).broadcast_end_of_data()
    assert {place for place, _ in sent.frames} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert plan.task("both").head.kind is OperatorKind.KEYED_CO_PROCESS


@given(st.lists(st.integers(0, 3 * MOST_BYTES), min_size=1, max_size=9), st.integers(0, 3))
def test_a_frame_is_bounded_but_for_a_single_large_record(sizes, skipped):
    texts = [chr(97 + index) * size for index, size in enumerate(sizes)]
    whole = pa.RecordBatch.from_arrays([pa.array(["x" * MOST_BYTES] * skipped + texts)], names=["value"]).slice(skipped)
    parts = list(frame_sized(whole))
    assert [value for part in parts for value in part.column(0).to_pylist()] == texts
    average = -(-sum(sizes) // len(sizes))
    for part in parts:
        assert part.num_rows == 1 or (part.num_rows - 1) * average <= MOST_BYTES
        assert len(part.serialize()) <= part.nbytes + 1000, "a slice takes only its own bytes along"


@given(st.lists(st.integers(0, 2 * MOST_BYTES), min_size=1, max_size=9))
def test_few_records_are_bounded_as_many_are(sizes):
    texts = ["x" * size for size in sizes]
    whole = pa.RecordBatch.from_arrays([pa.array(texts)], names=["value"])
    parts = [(pa.ipc.read_record_batch(data, whole.schema), data, rows) for data, rows in serialized(whole)]
    assert [value for part, _, _ in parts for value in part.column(0).to_pylist()] == texts
    assert [rows for _, _, rows in parts] == [part.num_rows for part, _, _ in parts]
    if sum(sizes) > MOST_BYTES:
        assert len(parts) > 1 or len(sizes) == 1


def test_many_records_go_in_several_frames_of_one_channel():
    plan, sent = job(), Sent()
    writer = RecordWriter(plan.task("numbers"), 0, JobChannels.of(plan), sent)
    (output,) = plan.task("numbers").outputs
    schema, values = output.schema(), list(range(100_000))
    writer.write(output, pa.RecordBatch.from_arrays([pa.array(values, field.type) for field in schema], schema=schema))
    by_place = {}
    for place, frame in sent.frames:
        by_place.setdefault(place, []).append(frame)
        assert len(frame.data) < MOST_BYTES + 2000
    assert all(len(frames) > 3 for frames in by_place.values())
    assert all([frame.sequence for frame in frames] == list(range(len(frames))) for frames in by_place.values())
    assert sum(frame.rows for _, frame in sent.frames) == len(values)

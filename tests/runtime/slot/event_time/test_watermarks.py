"""Watermarks that come as rows: how channels are combined, when they count, how they go on, and what a checkpoint keeps."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.errors import ControlError, JobExecutionError
from pystate.common.watermark_strategy import NO_TIMESTAMP, TimestampAssigner
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_GROUP_FIELD, TIMESTAMP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateShare
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.datastream import KeyedProcessFunction, ProcessFunction
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import MicroBatchSubtask
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.watermark_rows import watermark_row, watermark_rows
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK, ChainTime
from pystate.runtime.slot.event_time.watermark_valve import WatermarkValve
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.runtime.slot.harness import RecordingCoordinator

SHOWN = Types.TUPLE([Types.STRING(), Types.LONG()])
EDGE = OutputSpec(0, OutputKind.EDGE, "to next", SHOWN, target="next", timestamped=True)


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


# -- channels


def test_a_channel_of_a_source_that_has_ended_is_waited_for_by_nobody():
    valve = WatermarkValve({"a/0": None, "b/0": 10, "c/0": None}, now=0)
    valve.take("a/0/topic-1", 3, idle=False, now=0)
    valve.take("b/0", 5, idle=False, now=0)
    valve.take("c/0", 4, idle=False, now=0)
    assert valve.advance(0) == 3
    assert valve.advance(0, ["a/0"]) == 4, "its partitions are at their end with it"
    assert valve.advance(0, ["a/0", "c/0"]) == 5
    assert valve.advance(99, ["a/0", "c/0"]) == 5
    assert valve.is_idle, "where the only live one is idle event time isn't at its end"
    assert "a/0/topic-1" in valve.snapshot()
    assert valve.advance(99, ["a/0", "b/0", "c/0"]) == MAX_WATERMARK
    assert not valve.is_idle


def test_a_channel_at_the_end_of_event_time_lifts_nothing_while_others_are_idle():
    valve = WatermarkValve({"ended": None, "idle": None}, now=0)
    valve.take("ended", 7, idle=False, now=0)
    valve.take("idle", 5, idle=False, now=0)
    assert valve.advance(0) == 5
    valve.take("ended", MAX_WATERMARK, idle=False, now=0)
    valve.take("idle", 5, idle=True, now=0)
    assert (valve.advance(0), valve.is_idle) == (5, True), "elements may come, and must not be late"
    valve.take("idle", 8, idle=False, now=0)
    assert (valve.advance(0), valve.is_idle) == (8, False)
    valve.take("idle", MAX_WATERMARK, idle=False, now=0)
    assert (valve.advance(0), valve.is_idle) == (MAX_WATERMARK, False)


def test_an_input_is_as_far_as_its_slowest_channel():
    valve = WatermarkValve({"a": None, "b": None}, now=0)
    valve.take("a", 9, idle=False, now=0)
    assert valve.advance(0) == MIN_WATERMARK
    valve.take("b", 5, idle=False, now=0)
    assert valve.advance(0) == 5
    valve.take("b", 3, idle=False, now=0)
    assert valve.advance(0) == 5


def test_the_highest_of_several_tasks_of_one_source_counts():
    valve = WatermarkValve({"source": None}, now=0)
    for watermark in (4, 9, 6):
        valve.take("source", watermark, idle=False, now=0)
    assert valve.advance(0) == 9


def test_nobody_waits_for_an_idle_channel_and_it_brings_nothing_back_when_it_wakes():
    valve = WatermarkValve({"a": None, "b": 100}, now=0)
    valve.take("a", 9, idle=False, now=0)
    assert valve.advance(99) == MIN_WATERMARK
    assert valve.advance(100) == 9
    valve.take("b", 2, idle=False, now=101)
    valve.take("a", 12, idle=False, now=101)
    assert valve.advance(101) == 12, "what comes of it is late anyway"
    valve.take("b", 20, idle=False, now=102)
    assert valve.advance(102) == 12
    valve.take("a", 25, idle=False, now=102)
    assert valve.advance(102) == 20, "it counts since it has caught up"


def with_one_after():
    """Return a valve at 9 to which a channel has come back at 5."""
    valve = WatermarkValve({"up/0/0": None, "up/0/1": None}, now=0)
    valve.take("up/0/0", 9, idle=False, now=0)
    valve.take("up/0/1", 4, idle=True, now=0)
    assert valve.advance(0) == 9
    valve.take("up/0/1", 5, idle=False, now=0)
    return valve


def test_an_input_whose_only_active_channel_is_after_stands_still_and_is_not_idle():
    valve = with_one_after()
    valve.take("up/0/0", 9, idle=True, now=0)
    assert (valve.advance(0), valve.is_idle) == (9, False)
    valve.take("up/0/1", 8, idle=False, now=0)
    assert valve.advance(0) == 9
    valve.take("up/0/1", 11, idle=False, now=0)
    assert valve.advance(0) == 11


def test_whether_a_channel_is_left_out_is_put_back_with_its_epoch():
    valve = with_one_after()
    valve.finish_epoch()
    valve.take("up/0/1", 10, idle=False, now=0)
    valve.roll_back()
    valve.take("up/0/0", 12, idle=False, now=0)
    assert valve.advance(0) == 12


def test_a_partition_of_a_source_that_comes_back_is_waited_for():
    valve = WatermarkValve({"source/0": 100}, now=0)
    valve.take("source/0/topic:0", 9, idle=False, now=0)
    valve.take("source/0/topic:1", 9, idle=False, now=0)
    assert valve.advance(0) == 9
    valve.take("source/0/topic:0", 20, idle=False, now=90)
    assert valve.advance(100) == 20
    valve.take("source/0/topic:1", 15, idle=False, now=101)
    valve.take("source/0/topic:0", 30, idle=False, now=101)
    assert valve.advance(101) == 20


def test_an_input_of_idle_channels_is_idle_and_stands_still():
    valve = WatermarkValve({"a": None}, now=0)
    valve.take("a", 9, idle=True, now=0)
    assert (valve.advance(0), valve.is_idle) == (MIN_WATERMARK, True)
    valve.take("a", 10, idle=False, now=0)
    assert (valve.advance(0), valve.is_idle) == (10, False)


def test_channels_of_a_task_with_other_subtasks_go_on_at_the_lowest_of_the_old_ones():
    valve = WatermarkValve({"up/0/0": None, "up/0/1": None, "up/0/2": None, "source": None, "new": None}, now=0)
    valve.restore([{"up/0/0": 5, "up/0/1": 7, "source": 9}, {"up/0/0": 6, "up/0/1": 4, "source": 8}], 0)
    assert valve.snapshot() == {"up/0/0": 4, "up/0/1": 4, "up/0/2": 4, "source": 8}


def test_partitions_of_a_source_are_channels_each_from_their_first_row_on():
    valve = WatermarkValve({"source/0": 100, "up/0/0": None}, now=0)
    valve.take("up/0/0", 90, idle=False, now=0)
    valve.finish_epoch()
    assert valve.advance(0) == MIN_WATERMARK, "none has come"
    valve.take("source/0/topic:0", 9, idle=False, now=0)
    valve.take("source/0/topic:1", 5, idle=False, now=0)
    assert valve.advance(0) == 5
    valve.take("source/0/topic:1", 7, idle=False, now=1)
    valve.take("source/0/topic:2", 3, idle=False, now=1)
    assert valve.advance(1) == 5, "never back"
    valve.take("source/0/topic:1", 30, idle=False, now=60)
    valve.take("source/0/topic:2", 30, idle=False, now=60)
    assert (valve.advance(99), valve.advance(100)) == (9, 30), "a partition without rows for so long is idle"
    valve.roll_back()
    assert valve.snapshot() == {"up/0/0": 90}


def test_partitions_are_waited_for_after_a_restore_and_no_longer_where_the_source_has_none():
    valve = WatermarkValve({"source/0": None}, now=0)
    valve.restore([{"source/0/topic:0": 7, "source/0/topic:1": 4}, {"source/0/topic:0": 5, "source/0/topic:1": 4}], 0)
    assert valve.snapshot() == {"source/0/topic:0": 5, "source/0/topic:1": 4}
    valve.take("source/0/topic:0", 20, idle=False, now=0)
    assert valve.advance(0) == 4
    valve.take("source/0", 9, idle=False, now=0)  # another program, which leaves the partition's column out
    assert (valve.advance(0), valve.snapshot()) == (9, {"source/0": 9})


def test_watermarks_of_random_epochs_are_those_of_a_model():
    for seed in range(50):
        chosen = random.Random(seed)
        valve, highest, output = (
            WatermarkValve(dict.fromkeys("abc"), now=0),
            dict.fromkeys("abc", MIN_WATERMARK),
            MIN_WATERMARK,
        )
        for _ in range(20):
            told = [(chosen.choice("abc"), chosen.randrange(100)) for _ in range(chosen.randrange(4))]
            for channel, watermark in told:
                valve.take(channel, watermark, idle=False, now=0)
            reached = valve.advance(0)
            if chosen.random() < 0.3:
                valve.roll_back()
                continue
            valve.finish_epoch()
            for channel, watermark in told:
                highest[channel] = max(highest[channel], watermark)
            output = max(output, min(highest.values()))
            assert reached == output


# -- strategies


def assigner(strategy, now=lambda: 0):
    seen, time = [], ChainTime(now)
    made = TimestampsAndWatermarks(strategy, lambda element: seen.append((element, time.timestamp)), time, "times")
    return made, seen, time


def test_an_assigner_gives_times_and_a_watermark_after_them():
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_assigner(Second())
    made, seen, time = assigner(bounded)
    assert made.watermark == MIN_WATERMARK
    for element in (("a", 50), ("b", 40)):
        made.process_element(element)
    assert (seen, time.timestamp) == ([(("a", 50), 50), (("b", 40), 40)], None)
    assert made.watermark == 39
    made.finish_epoch()
    made.process_element(("c", 90))
    made.roll_back_epoch()
    assert made.watermark == 39


def test_a_strategy_without_assigner_keeps_the_times_that_are_there():
    made, seen, time = assigner(WatermarkStrategy.for_monotonous_timestamps())
    time.timestamp = 7
    made.process_element("a")
    assert (seen, made.watermark) == ([("a", 7)], 6)


def test_an_assigner_is_given_the_time_that_an_element_has():
    class Given(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            given.append(record_timestamp)
            return 1

    given = []
    made, _, time = assigner(WatermarkStrategy.no_watermarks().with_timestamp_assigner(Given()))
    made.process_element("a")
    time.timestamp = 7
    made.process_element("b")
    assert (given, made.watermark) == ([NO_TIMESTAMP, 7], MIN_WATERMARK)


def test_a_time_that_is_no_integer_is_refused():
    class Wrong(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return 1.5

    made, _, _ = assigner(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Wrong()))
    with pytest.raises(JobExecutionError, match=r"ms since 1970 as an int, not 1\.5"):
        made.process_element("a")


def test_an_assigner_without_elements_is_idle_after_its_timeout():
    clock = [0]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(100))
    made, _, time = assigner(strategy, lambda: clock[0])
    time.timestamp = 5
    made.process_element("a")
    clock[0] = 100
    assert not made.is_idle
    made.finish_epoch()
    clock[0] = 199
    assert not made.is_idle
    clock[0] = 200
    assert made.is_idle


# -- a subtask


class Bench:
    """A subtask with timers whose input has the channels `up/0/0` and `up/0/1`, and an edge with times after it."""

    def __init__(self, tmp_path, name="slot", *, chain=None, index=0, parallelism=1, channels=2, restored=None):
        self.coordinator = RecordingCoordinator()
        folder = tmp_path / name
        folder.mkdir()
        self.key = KeyColumn("value", Types.STRING())
        names = [f"up/0/{number}" for number in range(channels)]
        read = TaskInput(Types.STRING(), self.key, timestamped=True, channels=dict.fromkeys(names))
        head = OperatorSpec("alarm", "alarm", OperatorKind.PROCESS, Alarm())
        task = TaskSpec("alarm", "alarm", "c" * 32, parallelism, 16, [read], head, chain or Chain(outputs=[EDGE]))
        environment = JobEnvironment("b" * 32, "job", 0, {}, "hashmap", 1 << 20, str(folder))
        self.subtask = MicroBatchSubtask(task, index, environment, self.coordinator, self.coordinator, lambda run: run(), -1)
        self.subtask.open(restored, None if restored is None else 1)

    def run(self, epoch, elements=(), watermarks=(), *, finish=True, end_of_input=False, attempt=0):
        def batches():
            yield from [(1, watermark_row(f"up/0/{channel}", watermark, idle=False)) for channel, watermark in watermarks]
            if elements:
                words = [word for word, _ in elements]
                fields = {"value": words, KEY_GROUP_FIELD: pa.array([0] * len(words), pa.int32())}
                times = pa.array([time for _, time in elements], pa.int64())
                yield 0, pa.RecordBatch.from_pydict({**fields, TIMESTAMP_FIELD: times})
            return len(elements)

        kept = self.subtask.run(epoch, Asker(1, attempt), lambda: None, batches, end_of_input=end_of_input)
        if finish:
            self.subtask.finish_epoch(epoch, attempt, None)
        return self.read(kept, EDGE), [row for (row,) in self.told(kept)]

    def read(self, kept, edge):
        schema = edge.schema()
        batches = [pa.ipc.read_record_batch(pa.py_buffer(data), schema) for data in kept.batches(edge.tag)]
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    def told(self, kept):
        edge = EDGE.watermarks()
        return [
            list(watermark_rows(pa.ipc.read_record_batch(pa.py_buffer(data), edge.schema())))
            for data in kept.batches(edge.tag)
        ]


def test_what_timers_emit_goes_before_the_watermark_in_the_same_epoch(tmp_path):
    bench = Bench(tmp_path)
    assert bench.run(0, [("a", 5), ("b", 9)], [(0, 7), (1, 6)]) == ([("a", 5, 5)], [("alarm/0/0", 6, False)])
    assert bench.run(1, [], [(0, 20), (1, 9)]) == ([("b", 9, 9)], [("alarm/0/0", 9, False)])


def test_elements_after_watermarks_in_the_stream_come_before_them(tmp_path):
    bench = Bench(tmp_path)  # the bench sends watermarks first
    rows, _ = bench.run(0, [("a", 5)], [(0, 100), (1, 100)])
    assert rows == [("a", 5, 5)]


def test_an_epoch_that_is_given_up_puts_watermarks_and_timers_back(tmp_path):
    bench = Bench(tmp_path)
    bench.run(0, [("a", 5)], [(0, 1), (1, 1)])

    def broken():
        yield 1, watermark_row("up/0/0", 50, idle=False)
        yield 1, watermark_row("up/0/1", 50, idle=False)
        message = "the exchange died"
        raise ControlError(message)

    with pytest.raises(ControlError):
        bench.subtask.run(1, Asker(1, 1), lambda: None, broken)
    assert bench.subtask.chain.current_watermark == 1
    assert bench.run(1, [], [(0, 3)], attempt=2) == ([], [("alarm/0/0", 1, False)])
    assert bench.run(2, [], [(1, 9), (0, 9)], attempt=3) == ([("a", 5, 5)], [("alarm/0/0", 9, False)])


def test_the_end_of_the_input_is_the_end_of_event_time(tmp_path):
    bench = Bench(tmp_path)
    bench.run(0, [("a", 1 << 50)], [(0, 1)])
    rows, told = bench.run(1, end_of_input=True)
    assert rows == [("a", 1 << 50, 1 << 50)]
    assert told == [("alarm/0/0", MAX_WATERMARK, False)]


def test_after_an_assigner_its_watermark_goes_on_in_the_place_of_the_tasks(tmp_path):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2)).with_timestamp_assigner(Second())
    edge = OutputSpec(0, OutputKind.EDGE, "on", SHOWN, target="next", timestamped=True, assigners=frozenset({"times"}))
    node = ChainNode(OperatorSpec("times", "times", OperatorKind.ASSIGN_TIMESTAMPS, strategy), outputs=[edge])
    bench = Bench(tmp_path, chain=Chain(children=[node]))
    rows, told = bench.run(0, [("a", 5), ("a", 15)], [(0, 100), (1, 100)])
    assert rows == [("a", 5, 5), ("a", 15, 15)]
    assert told == [("alarm/0/0", 12, False)]
    assert bench.run(1, end_of_input=True)[1] == [("alarm/0/0", MAX_WATERMARK, False)]


class Shown(ProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.timer_service().current_watermark()


@pytest.mark.parametrize("times", [("times",), ("other", "times")])
def test_functions_chained_after_an_assigner_see_its_watermark(tmp_path, times):
    strategies = {"times": bounded(2), "other": bounded(1000)}
    edge = OutputSpec(0, OutputKind.EDGE, "on", SHOWN, target="next", timestamped=True)
    place = chain = Chain()
    for uid in times:
        place.children.append(ChainNode(OperatorSpec(uid, uid, OperatorKind.ASSIGN_TIMESTAMPS, strategies[uid])))
        (place,) = place.children
    place.children.append(ChainNode(OperatorSpec("shown", "shown", OperatorKind.PLAIN_PROCESS, Shown()), outputs=[edge]))
    bench = Bench(tmp_path, chain=chain)
    assert bench.run(0, [("a", 5), ("a", 15)], [(0, 100), (1, 100)])[0] == [
        ("a", MIN_WATERMARK, 5),
        ("a", MIN_WATERMARK, 15),
    ]
    assert bench.run(1, [("a", 90)], [(0, 200), (1, 200)], finish=False, attempt=1)[0] == [("a", 12, 90)]
    assert bench.subtask.chain.current_watermark == 200
    bench.subtask.chain.roll_back_epoch()


def test_after_a_union_of_branches_of_a_chain_event_time_is_the_lowest_of_theirs(tmp_path):
    edge = OutputSpec(0, OutputKind.EDGE, "on", SHOWN, target="next", timestamped=True)
    shown = ChainNode(OperatorSpec("shown", "shown", OperatorKind.PLAIN_PROCESS, Shown()), outputs=[edge])
    assigners = [
        ChainNode(OperatorSpec(uid, uid, OperatorKind.ASSIGN_TIMESTAMPS, bounded(bound)), children=[shown])
        for uid, bound in (("near", 2), ("far", 7))
    ]
    bench = Bench(tmp_path, chain=Chain(children=assigners))
    bench.run(0, [("a", 20)], [(0, 100), (1, 100)])
    assert bench.run(1, [("a", 150)], [(0, 200), (1, 200)])[0] == [("a", 12, 150)] * 2
    direct = Bench(tmp_path, "direct", chain=Chain(children=[assigners[0], shown]))
    direct.run(0, [("a", 9), ("a", 20)], [(0, 10), (1, 10)])
    assert set(direct.run(1, [("a", 15)], [(0, 15), (1, 15)])[0]) == {("a", 6, 15)}


def bounded(bound):
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound)).with_timestamp_assigner(Second())


def test_restored_subtasks_go_on_at_the_lowest_watermark_of_all_old_ones(tmp_path):
    uri, shares = (tmp_path / "chk-1").as_uri(), []
    (tmp_path / "chk-1").mkdir()
    for index, (first, second) in enumerate([(7, 8), (5, 9)]):
        bench = Bench(tmp_path, f"old{index}", index=index, parallelism=2)
        bench.run(0, [], [(0, first), (1, second)])
        frozen = bench.subtask.chain.on_barrier(CheckpointBarrier(1, uri, 1 << 20, 0))
        written = frozen.write(SnapshotLocation(uri), index, 1 << 20).operators["alarm"].operator_state
        shares += [
            OperatorStateShare(handle, {name: (0, info.count) for name, info in handle.states.items()}) for handle in written
        ]
    for index in range(3):
        restored = {"alarm": RestoredOperator(uri, operator_state=shares)}
        bench = Bench(tmp_path, f"new{index}", index=index, parallelism=3, restored=restored, channels=3)
        assert bench.subtask.chain.current_watermark == 5
        assert bench.subtask.chain.watermarks.valves[0].snapshot() == dict.fromkeys(["up/0/0", "up/0/1", "up/0/2"], 5)
        assert bench.run(0)[1] == [(f"alarm/0/{index}", 5, False)]
        assert bench.run(1, [], [(0, 6), (1, 9), (2, 8)])[1] == [(f"alarm/0/{index}", 6, False)]


def test_who_goes_on_after_a_drain_begins_without_watermarks_at_another_parallelism(tmp_path):
    bench = Bench(tmp_path)
    bench.run(0, [("a", 50)], [(0, 20), (1, 30)])
    bench.run(1, end_of_input=True)
    uri = (tmp_path / "chk-1").as_uri()
    (tmp_path / "chk-1").mkdir()
    frozen = bench.subtask.chain.on_barrier(CheckpointBarrier(1, uri, 1 << 20, 0))
    (handle,) = frozen.write(SnapshotLocation(uri), 0, 1 << 20).operators["alarm"].operator_state
    share = OperatorStateShare(handle, {name: (0, info.count) for name, info in handle.states.items()})
    restored = {"alarm": RestoredOperator(uri, operator_state=[share])}
    for index in range(2):
        after = Bench(tmp_path, f"after{index}", index=index, parallelism=2, restored=restored)
        assert after.subtask.chain.current_watermark == MIN_WATERMARK
        assert after.run(0, [], [(0, 9)])[1] == [(f"alarm/0/{index}", MIN_WATERMARK, False)]
        assert after.run(1, [], [(1, 6)])[1] == [(f"alarm/0/{index}", 6, False)]


def test_a_task_without_times_keeps_no_watermarks_in_its_checkpoints(tmp_path):
    bench = Bench(tmp_path, channels=0)
    bench.run(0)
    frozen = bench.subtask.chain.on_barrier(CheckpointBarrier(1, tmp_path.as_uri(), 1 << 20, 0))
    assert frozen.operators[-1].operator is None or not frozen.operators[-1].operator.infos

"""Input in BATCH mode: one key at a time, whose timers all fire at its end, and whose state goes then."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pystate.common import Types
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction, ProcessFunction, ValueStateDescriptor
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
KEY = Types.STRING()
MAX_PARALLELISM = 16


class Timers(KeyedProcessFunction):
    """Tells all that it sees of its key, of time and of timers."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        service = ctx.timer_service()
        assert service.current_watermark() == MIN_WATERMARK
        service.register_processing_time_timer(1)
        service.register_event_time_timer(value[1] * 10)
        yield "element", ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        service = ctx.timer_service()
        service.register_event_time_timer(timestamp)
        service.register_processing_time_timer(timestamp + 1)
        yield f"{ctx.get_current_key()} {ctx.time_domain().name} {self.count.value()}", timestamp


class Times(ProcessFunction):
    """Gives the time of each element beside its key."""

    def process_element(self, value, ctx):
        yield value[0], ctx.timestamp()


@pytest.fixture(params=["hashmap", "rocksdb"])
def chain(request, tmp_path):
    """Return what makes a chain with a head, and what it has emitted."""
    made = []

    def make(kind, function, *, batch=True, timed=False):
        outputs = Chain(outputs=[OutputSpec(0, OutputKind.FRAME, "out", PAIR)])
        if timed:
            times = OperatorSpec("times", "times", OperatorKind.PLAIN_PROCESS, Times(), output_type=PAIR)
            outputs = Chain(children=[ChainNode(times, outputs=outputs.outputs)])
        inputs = [TaskInput(PAIR, KeyColumn(KEY_FIELD, KEY), timestamped=True)]
        head = OperatorSpec("head", "head", kind, function)
        task = TaskSpec("head", "head", "c" * 32, 1, MAX_PARALLELISM, inputs, head, outputs)
        environment = JobEnvironment("b" * 32, "job", 0, {}, request.param, 1 << 20, str(tmp_path), batch=batch)
        emitted = []
        codec = RecordCodec(PAIR, "test")
        subtask = OperatorChain(task, 0, environment, lambda _, rows: emitted.extend(codec.decode(rows)))
        subtask.open()
        made.append(subtask)
        return subtask, emitted

    yield make
    for subtask in made:
        subtask.close()


def batch(*rows):
    """Return rows of (key, number) with the number as their time."""
    keys = KeyCodec(KEY)
    return pa.RecordBatch.from_arrays(
        [
            *RecordCodec(PAIR, "test").encode(list(rows)),
            pa.array([key for key, _ in rows]),
            pa.array([number for _, number in rows], pa.int64()),
            pa.array([keys.key_group(key, MAX_PARALLELISM) for key, _ in rows], pa.int32()),
        ],
        names=["f0", "f1", KEY_FIELD, TIMESTAMP_FIELD, KEY_GROUP_FIELD],
    )


def end(subtask):
    subtask.advance_watermarks(end_of_input=True)
    subtask.flush_output()


def test_the_timers_of_a_key_fire_at_its_end_and_none_that_they_register(chain):
    subtask, emitted = chain(OperatorKind.PROCESS, Timers())

    subtask.on_batch(batch(("a", 2), ("a", 3)))
    subtask.on_batch(batch(("a", 4), ("b", 1)))
    end(subtask)

    assert emitted == [
        ("element", 2),
        ("element", 3),
        ("element", 4),
        ("a EVENT_TIME 3", 20),
        ("a EVENT_TIME 3", 30),
        ("a EVENT_TIME 3", 40),
        ("a PROCESSING_TIME 3", 1),
        ("element", 1),
        ("b EVENT_TIME 1", 10),
        ("b PROCESSING_TIME 1", 1),
    ]


def test_a_key_leaves_nothing(chain):
    subtask, _ = chain(OperatorKind.PROCESS, Timers())
    subtask.on_batch(batch(("a", 2), ("b", 1)))
    end(subtask)
    subtask.finish_epoch()

    for key in ("a", "b"):
        subtask.backend.key_context.set_current_key(key, KeyCodec(KEY).key_group(key, MAX_PARALLELISM))
        assert subtask.backend.get_partitioned_state(ValueStateDescriptor("count", Types.LONG())).value() is None
    assert subtask.next_processing_time_timer() is None


def test_a_reduced_key_has_one_result(chain):
    def summed(first, second):
        return first[0], first[1] + second[1]

    subtask, emitted = chain(OperatorKind.REDUCE, summed)
    subtask.on_batch(batch(("a", 2), ("a", 3), ("b", 1)))
    subtask.on_batch(batch(("b", 5), ("c", 7)))
    end(subtask)
    assert emitted == [("a", 5), ("b", 6), ("c", 7)]

    subtask, emitted = chain(OperatorKind.REDUCE, summed, batch=False)
    subtask.on_batch(batch(("a", 2), ("a", 3), ("b", 1)))
    end(subtask)
    assert emitted == [("a", 2), ("a", 5), ("b", 1)]


def test_a_reduced_key_has_its_result_at_the_end_of_event_time_and_not_before(chain):
    subtask, emitted = chain(OperatorKind.REDUCE, lambda first, second: (first[0], first[1] + second[1]), timed=True)
    subtask.on_batch(batch(("a", 2), ("a", 3)))
    subtask.flush_output()
    assert emitted == []
    subtask.on_batch(batch(("a", 4)))
    end(subtask)
    assert emitted == [("a", MAX_WATERMARK)]


def test_an_epoch_that_is_given_up_begins_anew(chain):
    subtask, emitted = chain(OperatorKind.PROCESS, Timers())
    subtask.on_batch(batch(("a", 2)))
    assert subtask.roll_back_epoch() is None

    subtask.on_batch(batch(("a", 3)))
    end(subtask)

    assert emitted == [("element", 3), ("a EVENT_TIME 1", 30), ("a PROCESSING_TIME 1", 1)]


class BatchTimers(Timers):
    """The same, taking batches."""

    def process_batch(self, batch, ctx):
        assert len(batch.keys) == 1
        batch.set_current_key(0)
        for number, time in zip(batch.data.column("f1").to_pylist(), batch.timestamps.to_pylist(), strict=True):
            yield from self.process_element((batch.keys[0], number), TimeOf(ctx, time))


class TimeOf:
    """A context with a time of its own."""

    def __init__(self, ctx, time):
        self._ctx, self._time = ctx, time

    def timestamp(self):
        return self._time

    def timer_service(self):
        return self._ctx.timer_service()


def test_a_function_that_takes_batches_gets_one_key_at_a_time_and_its_timers_fire_at_its_end(chain):
    rows = [("a", 2), ("a", 1), ("b", 3), ("c", 1), ("c", 4)]
    found = []
    for function in (Timers(), BatchTimers()):
        subtask, emitted = chain(OperatorKind.PROCESS, function)
        subtask.on_batch(batch(*rows[:1]))
        subtask.on_batch(batch(*rows[1:]))
        subtask.advance_watermarks(end_of_input=True)
        subtask.flush_output()
        found.append(list(emitted))
    assert found[0] == found[1]
    assert any(value.startswith("c EVENT_TIME") for value, _ in found[1])

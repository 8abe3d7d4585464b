"""The time of elements on their way through a chain, and what side outputs count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pystate.common import Types
from pystate.common.errors import ControlError
from pystate.core.api.functions import KeyedProcessFunction, ProcessFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.window.assigners import GlobalWindows, TumblingEventTimeWindows
from pystate.core.api.window.triggers import CountTrigger, EventTimeTrigger, Trigger, TriggerResult
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MIN_TIMESTAMP
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import MIN_WATERMARK, OperatorChain
from pystate.runtime.slot.metrics.operator_counts import OperatorCounts

LATE = OutputTag("late")
NUMBERS = Types.LONG()


class Stamp(ProcessFunction):
    """Shows what a function after another one sees."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        yield value, ctx.timestamp(), timers.current_watermark()


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(value)
        yield f"element {value}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield f"{ctx.time_domain().name} {timestamp}"


class Bench:
    """A chain of a keyed head, with a function after its main output and after its late elements."""

    def __init__(self, kind: OperatorKind, function: Any, folder: Path, *, timestamped: bool = True) -> None:
        self.now = 0
        self.out: list[Any] = []
        self.key = KeyColumn(KEY_FIELD, NUMBERS)
        self.timestamped = timestamped
        ends = [OutputSpec(tag, OutputKind.FRAME, str(tag)) for tag in range(2)]
        nodes = [
            ChainNode(OperatorSpec(f"stamp{end.tag}", "stamp", OperatorKind.PLAIN_PROCESS, Stamp()), outputs=[end])
            for end in ends
        ]
        chain = Chain(children=nodes[:1], side_outputs={LATE.tag_id: Chain(children=nodes[1:])})
        self.task = TaskSpec(
            "uid", "task", "0" * 32, 1, 128, [TaskInput(NUMBERS, self.key, timestamped=timestamped)], chain=chain
        )
        self.task.head = OperatorSpec("uid", "head", kind, function)
        environment = JobEnvironment("0" * 32, "job", 0, {}, "hashmap", 0, str(folder))
        self.chain = OperatorChain(self.task, 0, environment, self._collect, lambda: self.now)
        self.chain.open()

    def _collect(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        self.out += [(output.tag, *element) for element in RecordCodec(None, "out").decode(batch)]

    def elements(self, *elements: tuple[int, int | None]) -> None:
        codec = RecordCodec(NUMBERS, "in")
        values = [value for value, _ in elements]
        arrays = [*codec.encode(values), self.key.encode([1] * len(values), "key")]
        fields = [*codec.schema, self.key.field(), pa.field(KEY_GROUP_FIELD, pa.int32())]
        arrays.append(pa.array([0] * len(values), pa.int32()))
        if self.timestamped:
            arrays.append(pa.array([time for _, time in elements], pa.int64()))
            fields.append(pa.field(TIMESTAMP_FIELD, pa.int64()))
        self.chain.on_batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))

    def taken(self) -> list[Any]:
        self.chain.flush_output()
        out, self.out = self.out, []
        return out


def test_what_a_function_emits_has_the_time_of_what_it_was_called_for(tmp_path: Path) -> None:
    bench = Bench(OperatorKind.PROCESS, Alarm(), tmp_path)
    bench.elements((5, 100), (6, None))
    assert bench.taken() == [(0, "element 5", 100, MIN_WATERMARK), (0, "element 6", None, MIN_WATERMARK)]
    assert bench.chain.next_processing_time_timer() == 5
    assert bench.chain.on_watermark(5) == 5
    assert bench.taken() == [(0, "EVENT_TIME 5", 5, 5)]
    bench.now = 5
    bench.chain.on_tick()
    assert bench.taken() == [(0, "PROCESSING_TIME 5", 5, 5)]
    assert bench.chain.next_processing_time_timer() == 6
    bench.chain.close()


def test_an_epoch_of_the_clock_fires_timers_up_to_the_drivers_time_whatever_the_slots_clock_says(tmp_path: Path) -> None:
    bench = Bench(OperatorKind.PROCESS, Alarm(), tmp_path)
    bench.now = 0
    bench.elements((5, 100), (7, 100))
    bench.taken()
    bench.chain.advance_watermarks(clock=5)
    assert bench.taken() == [(0, "PROCESSING_TIME 5", 5, MIN_WATERMARK)]
    assert bench.chain.next_processing_time_timer() == 7
    bench.now = 9
    bench.chain.advance_watermarks(clock=6)
    assert bench.taken() == []
    bench.chain.advance_watermarks(end_of_input=True, clock=9)
    assert [value for _, value, _, _ in bench.taken()] == ["EVENT_TIME 5", "EVENT_TIME 7"], "the clock's are dropped"
    bench.chain.close()


def test_rows_without_times_leave_elements_without_one_also_after_timers(tmp_path: Path) -> None:
    bench = Bench(OperatorKind.PROCESS, Alarm(), tmp_path, timestamped=False)
    bench.elements((5, None))
    bench.chain.on_watermark(5)
    bench.elements((7, None))
    assert [time for _, _, time, _ in bench.taken()] == [None, 5, None]
    bench.chain.close()


def test_what_a_window_emits_at_its_end_has_its_last_time_and_a_late_element_its_own(tmp_path: Path) -> None:
    windows = WindowOperation(TumblingEventTimeWindows(10), EventTimeTrigger(), late_tag=LATE, reduce_function=max)
    bench = Bench(OperatorKind.WINDOW, windows, tmp_path)
    bench.elements((5, 1), (6, 2))
    bench.chain.on_watermark(30)
    bench.elements((7, 3))
    assert bench.taken() == [(0, 6, 9, 30), (1, 7, 3, 30)]
    bench.chain.close()


class Times(CountTrigger):
    """Fires at each element, and writes down its time."""

    def __init__(self) -> None:
        super().__init__(1)
        self.seen: list[int] = []

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        self.seen.append(timestamp)
        return super().on_element(element, timestamp, window, ctx)


def test_what_a_window_emits_for_an_element_has_the_time_of_the_element(tmp_path: Path) -> None:
    trigger = Times()
    windows = WindowOperation(GlobalWindows(), trigger, reduce_function=max)
    bench = Bench(OperatorKind.WINDOW, windows, tmp_path)
    bench.elements((1, 70), (2, None), (3, 20))
    assert [time for _, _, time, _ in bench.taken()] == [70, None, 20]
    assert trigger.seen == [70, MIN_TIMESTAMP, 20]
    bench.chain.close()


def test_a_watermark_is_the_lowest_of_the_inputs_never_goes_back_and_is_rolled_back(tmp_path: Path) -> None:
    bench = Bench(OperatorKind.PROCESS, Alarm(), tmp_path)
    assert bench.chain.on_watermark(5) == 5
    assert bench.chain.on_watermark(4) is None
    bench.chain.finish_epoch()
    assert bench.chain.on_watermark(9) == 9
    assert bench.chain.roll_back_epoch() is None
    assert (bench.chain.current_watermark, bench.chain.on_watermark(9)) == (5, 9)
    with pytest.raises(ControlError):
        bench.chain.on_watermark(9, input_index=1)
    bench.chain.close()


def test_what_goes_into_side_outputs_is_counted_after_them(tmp_path: Path) -> None:
    bench = Bench(OperatorKind.PROCESS, Alarm(), tmp_path)
    counts = OperatorCounts(bench.task)
    assert counts.counts(10, {0: 7, 1: 3}) == {"uid": (10, None), "stamp0": (None, 7), "stamp1": (None, 3)}
    assert counts.rows_out({0: 7, 1: 3}) == 10
    bench.chain.close()

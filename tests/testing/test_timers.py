"""Timers of process functions, driven by watermarks and by the clock of the public harness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.api.functions import (
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
)
from pystate.core.api.state import MapStateDescriptor, ValueStateDescriptor
from pystate.core.api.timer_service import TimeDomain
from pystate.testing import (
    BroadcastOperatorTestHarness,
    KeyedOneInputOperatorTestHarness,
    OneInputOperatorTestHarness,
    OperatorTestHarness,
    TwoInputOperatorTestHarness,
)

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
MIN_WATERMARK = -(1 << 63)
MAX_WATERMARK = (1 << 63) - 1


class Alarm(KeyedProcessFunction):
    """Elements are (key, command, time); tells of each timer."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        _, command, time = value
        timers = ctx.timer_service()
        if command == "event":
            timers.register_event_time_timer(time)
        elif command == "clock":
            timers.register_processing_time_timer(time)
        elif command == "not event":
            timers.delete_event_time_timer(time)
        elif command == "not clock":
            timers.delete_processing_time_timer(time)
        else:
            yield ctx.timestamp(), timers.current_watermark(), timers.current_processing_time()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, ctx.timestamp()
        if timestamp == 500:
            for later in (501, 502, 2000):
                ctx.timer_service().register_event_time_timer(later)
                ctx.timer_service().register_processing_time_timer(later)


def alarms(backend: str = "hashmap", **options: Any) -> KeyedOneInputOperatorTestHarness:
    options = {"key_type": Types.STRING(), "state_backend": backend, **options}
    return KeyedOneInputOperatorTestHarness(Alarm(), lambda value: value[0], **options)


def fired(*times: tuple[str, int], domain: TimeDomain = TimeDomain.EVENT_TIME) -> list[Any]:
    return [(key, domain.name, time, time) for key, time in times]


@BACKENDS
def test_timers_by_event_time_fire_in_the_order_of_their_times_whatever_their_key(backend: str) -> None:
    with alarms(backend) as harness:
        harness.open()
        harness.process_elements([("a", "event", 30), ("b", "event", 10), ("c", "event", 20), ("a", "event", 5)])
        harness.process_watermark(4)
        assert harness.extract_output() == []
        harness.process_watermark(20)
        assert harness.extract_output() == fired(("a", 5), ("b", 10), ("c", 20))
        assert harness.num_event_time_timers() == 1
        harness.process_watermark(MAX_WATERMARK)
        assert harness.extract_output()[3:] == fired(("a", 30))
        assert harness.num_event_time_timers() == 0


@BACKENDS
def test_timers_by_the_clock_fire_by_the_clock_only(backend: str) -> None:
    with alarms(backend) as harness:
        harness.open()
        harness.process_elements([("a", "clock", 30), ("b", "clock", 10), ("a", "event", 10)])
        harness.set_processing_time(29)
        assert harness.extract_output() == fired(("b", 10), domain=TimeDomain.PROCESSING_TIME)
        harness.set_processing_time(30)
        assert harness.extract_output()[1:] == fired(("a", 30), domain=TimeDomain.PROCESSING_TIME)
        assert (harness.num_processing_time_timers(), harness.num_event_time_timers()) == (0, 1)


@BACKENDS
def test_there_is_one_timer_per_key_and_time_and_it_can_be_deleted(backend: str) -> None:
    with alarms(backend) as harness:
        harness.open()
        harness.process_elements([("a", "event", 10), ("a", "event", 10), ("b", "event", 10), ("a", "event", 11)])
        assert harness.num_event_time_timers() == 3
        harness.end_epoch()
        harness.process_elements(
            [("a", "event", 10), ("a", "not event", 11), ("b", "not event", 99), ("a", "not clock", 10)]
        )
        assert harness.num_event_time_timers() == 2
        harness.process_watermark(100)
        assert sorted(harness.extract_output()) == fired(("a", 10), ("b", 10))


@BACKENDS
def test_a_timer_that_is_registered_by_a_timer_and_is_due_fires_in_the_same_advance(backend: str) -> None:
    with alarms(backend) as harness:
        harness.open()
        harness.process_elements([("a", "event", 500), ("b", "event", 502)])
        harness.process_watermark(1000)
        assert harness.extract_output()[:2] == fired(("a", 500), ("a", 501))
        assert sorted(harness.extract_output()[2:]) == fired(("a", 502), ("b", 502))
        harness.set_processing_time(501)
        assert harness.extract_output()[4:] == fired(("a", 501), domain=TimeDomain.PROCESSING_TIME)
        assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (1, 2)


def test_an_element_knows_its_time_and_the_time() -> None:
    with alarms() as harness:
        harness.open()
        harness.process_element(("a", "tell", 0))
        harness.set_processing_time(7)
        harness.process_watermark(40)
        harness.process_watermark(30)
        harness.process_element(("a", "tell", 0), 42)
        harness.process_elements([("a", "tell", 0), ("b", "tell", 0)], [None, -1])
        expected = [(None, MIN_WATERMARK, 0), (42, 40, 7), (None, 40, 7), (-1, 40, 7)]
        assert harness.extract_output() == expected
        assert harness.current_watermark() == 40


@BACKENDS
def test_an_epoch_that_is_rolled_back_takes_its_timers_their_firing_and_the_watermark_back(backend: str) -> None:
    with alarms(backend) as harness:
        harness.open()
        harness.process_elements([("a", "event", 10), ("b", "event", 20), ("a", "clock", 10)])
        harness.process_watermark(5)
        harness.end_epoch()
        for _ in range(2):
            harness.process_elements([("c", "event", 15), ("b", "not event", 20)])
            harness.process_watermark(30)
            harness.set_processing_time(10)
            firings = [*fired(("a", 10), ("c", 15)), *fired(("a", 10), domain=TimeDomain.PROCESSING_TIME)]
            assert harness.extract_output() == firings
            harness.roll_back_epoch()
            assert harness.extract_output() == []
            assert harness.current_watermark() == 5
            assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (2, 1)


@pytest.mark.parametrize("other", ["hashmap", "rocksdb"])
@BACKENDS
def test_timers_move_with_their_keys_to_another_parallelism_and_backend(backend: str, other: str) -> None:
    words = [f"word {number}" for number in range(40)]
    with alarms(backend) as harness:
        harness.open()
        harness.process_elements([(word, "event", number) for number, word in enumerate(words)])
        harness.process_elements([(word, "clock", 100 + number) for number, word in enumerate(words)])
        harness.process_watermark(9)
        harness.set_processing_time(109)
        snapshot = harness.snapshot(1)
    output: list[Any] = []
    for index, share in enumerate(OperatorTestHarness.repartition([snapshot], 1, 3, 128)):
        with alarms(other, parallelism=3, subtask_index=index) as restored:
            restored.initialize_state(share)
            restored.open()
            restored.process_watermark(1000)
            restored.set_processing_time(1000)  # what is overdue fires once
            restored.set_processing_time(1001)
            output += restored.extract_output()
    left = list(enumerate(words))[10:]
    by_clock = [(word, 100 + number) for number, word in left]
    expected = fired(*((word, number) for number, word in left)) + fired(*by_clock, domain=TimeDomain.PROCESSING_TIME)
    assert sorted(output) == sorted(expected)


class Quiet(KeyedProcessFunction):
    """Registers timers, and has nothing to do when they fire."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)


def test_timers_of_a_function_without_on_timer_pass_unnoticed() -> None:
    with KeyedOneInputOperatorTestHarness(Quiet(), lambda value: value) as harness:
        harness.open()
        harness.process_elements([1, 2, 3])
        harness.process_watermark(2)
        assert (harness.extract_output(), harness.num_event_time_timers()) == ([], 1)


def test_a_function_that_never_asks_for_timers_has_no_state_for_them() -> None:
    class Count(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            yield ctx.get_current_key()

    with KeyedOneInputOperatorTestHarness(Count(), lambda value: value) as harness:
        harness.open()
        harness.process_element(1)
        harness.process_watermark(5)
        backend = harness._chain.backend
        assert backend is not None
        assert backend.state_names() == []


class Early(Quiet):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context: Any = None

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.context = ctx


def test_a_timer_needs_a_key_and_a_time() -> None:
    with alarms() as harness:
        harness.open()
        for wrong in (1.5, 1 << 63, None):
            with pytest.raises(StateError, match="can't be the time of a timer"):
                harness.process_element(("a", "event", wrong))
            harness.roll_back_epoch()
    function = Early()
    with KeyedOneInputOperatorTestHarness(function, lambda value: value) as harness:
        harness.open()
        harness.process_element(1)
        harness._chain.backend.key_context.clear()  # type: ignore[union-attr]
        with pytest.raises(StateError, match="where there is no current key"):
            function.context.timer_service().register_event_time_timer(1)


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        if value == "tell":
            yield ctx.timestamp(), timers.current_watermark(), timers.current_processing_time()
        else:
            getattr(timers, value)(1)


def test_without_a_key_there_is_time_and_are_no_timers() -> None:
    with OneInputOperatorTestHarness(Plain()) as harness:
        harness.open()
        harness.process_watermark(8)
        harness.set_processing_time(9)
        harness.process_element("tell", 7)
        assert harness.extract_output() == [(7, 8, 9)]
        for method in ("register", "delete"):
            for domain in ("event", "processing"):
                with pytest.raises(StateError, match="Timers are for keyed streams only"):
                    harness.process_element(f"{method}_{domain}_time_timer")


class Ends(KeyedCoProcessFunction):
    """The first stream says when a key ends, the second one counts until then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.time_domain(), self.count.value()
        self.count.clear()


def test_timers_of_two_streams_fire_by_the_lower_watermark() -> None:
    with TwoInputOperatorTestHarness(Ends(), lambda value: value[0], lambda value: value[0], Types.STRING()) as harness:
        harness.open()
        harness.process_element1(("a", 10))
        harness.process_element2(("a", 1))
        harness.process_element2(("a", 2))
        harness.process_watermark1(50)
        assert harness.extract_output() == []
        harness.process_watermark2(9)
        assert (harness.extract_output(), harness.current_watermark()) == ([], 9)
        harness.process_watermark2(10)
        assert harness.extract_output() == [("a", 10, TimeDomain.EVENT_TIME, 2)]
        harness.end_epoch()
        assert harness.num_keyed_state_entries() == 0


class PlainPair(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1)


def test_two_streams_without_a_key_have_no_timers() -> None:
    with TwoInputOperatorTestHarness(PlainPair()) as harness:
        harness.open()
        harness.process_element1("a", 3)
        assert harness.extract_output() == [("a", 3)]
        with pytest.raises(StateError, match="Timers are for keyed streams only"):
            harness.process_element2("b")


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Reminder(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[1])
        yield ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(*value)
        self.kept = ctx.get_broadcast_state(RULES)
        yield ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        rule = ctx.get_broadcast_state(RULES).get("rule")
        yield ctx.get_current_key(), timestamp, ctx.timestamp(), ctx.time_domain(), rule
        if timestamp == 99:
            self.kept.put("rule", 0)


def test_timers_beside_a_broadcast_stream_read_its_state_and_never_write_it() -> None:
    with BroadcastOperatorTestHarness(Reminder(), [RULES], lambda value: value[0], Types.STRING()) as harness:
        harness.open()
        harness.process_broadcast_element(("rule", 5), 1)
        harness.process_element(("a", 10), 2)
        harness.process_watermark(20)
        assert harness.extract_output() == [(1, MIN_WATERMARK, 0), (2, MIN_WATERMARK, 0)]
        harness.process_broadcast_watermark(20)
        assert harness.extract_output()[2:] == [("a", 10, 10, TimeDomain.EVENT_TIME, 5)]
        harness.process_element(("a", 99))
        harness.process_watermark(100)
        with pytest.raises(StateError):
            harness.process_broadcast_watermark(100)

"""Windows, sessions, lateness and timers against models that keep everything in lists, over random streams.

In the middle of a stream epochs end or are rolled back, and the job is restarted on another backend, with another
parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.time import Time
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.timer_service import TimeDomain
from pystate.core.api.window.assigners import (
    CountSlidingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from pystate.core.api.window.window_functions import WindowFunction
from pystate.core.api.window.windows import MAX_TIMESTAMP, MIN_TIMESTAMP
from pystate.runtime.slot.timers import internal_timer_service
from pystate.testing import KeyedOneInputOperatorTestHarness, OperatorTestHarness, WindowOperatorTestHarness
from tests.hypothesis_profiles import in_short_and_at_length, of_test

Harness = KeyedOneInputOperatorTestHarness
LATE = OutputTag("late")
KEYS = st.sampled_from(["a", "b", "c"])
SPILLING = "rocksdb that spills"
PLACES = st.tuples(st.sampled_from(["hashmap", "rocksdb", SPILLING]), st.integers(1, 3))
EXAMPLES = 5
BETWEEN = st.one_of(st.just(("end",)), st.just(("roll back",)), st.tuples(st.just("restart"), PLACES))


@pytest.fixture(scope="module", autouse=True)
def each_timer_may_be_the_one_that_is_too_much() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(internal_timer_service, "FIRED_PER_LOOK", 1)
        yield


class Subtasks:
    """All subtasks of an operator, which are restarted together.

    Args:
        make: Makes the harness of one, from its options.
        place: The first backend and parallelism.
    """

    def __init__(self, make: Callable[..., Harness], place: tuple[str, int]) -> None:
        self._make = make
        self._checkpoint = 0
        self.harnesses = self._start(place, None)

    def _start(self, place: tuple[str, int], shares: list[Any] | None) -> list[Harness]:
        backend, parallelism = place
        options: dict[str, Any] = {"state_backend": backend}
        if backend == SPILLING:
            options = {"state_backend": "rocksdb", "job_parameters": {PystateOptions.STATE_EPOCH_MEMORY.key: "1 b"}}
        made = []
        for index in range(parallelism):
            harness = self._make(parallelism=parallelism, subtask_index=index, **options)
            if shares is not None:
                harness.initialize_state(shares[index])
            harness.open()
            made.append(harness)
        return made

    def restart(self, place: tuple[str, int], watermark: int, now: int) -> None:
        """Take a snapshot, and go on with it at another place; time is then as it was."""
        self._checkpoint += 1
        snapshots = [harness.snapshot(self._checkpoint) for harness in self.harnesses]
        self.close()
        shares = OperatorTestHarness.repartition(snapshots, len(snapshots), place[1], 128)
        self.harnesses = self._start(place, shares)
        for harness in self.harnesses:
            harness.process_watermark(watermark)
            harness.set_processing_time(now)
            harness.end_epoch()

    def owner(self, key: str) -> Harness:
        """Return the subtask of a key."""
        (owner,) = (harness for harness in self.harnesses if harness.owns_key(key))
        return owner

    def taken(self, of: Callable[[Harness], Iterable[Any]]) -> list[Any]:
        """Return what all have put out since the last call, sorted."""
        return sorted((one for harness in self.harnesses for one in of(harness)), key=repr)

    def each(self, do: Callable[[Harness], None]) -> None:
        """Do something with all."""
        for harness in self.harnesses:
            do(harness)

    def close(self) -> None:
        """Close all."""
        self.each(lambda harness: harness.close())


class Collect(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        yield key, window.start, window.end, tuple(sorted(number for _, number, _ in inputs))


class WindowModel:
    """What windows of event time come to: all elements in lists, all windows looked at each time.

    Args:
        windows_of: The windows of a time, as pairs.
        lateness: In ms.
        merging: Whether windows that touch become one.
    """

    def __init__(self, windows_of: Callable[[int], list[tuple[int, int]]], lateness: int, *, merging: bool) -> None:
        self._windows_of = windows_of
        self._lateness = lateness
        self._merging = merging
        self.watermark = MIN_TIMESTAMP
        self.contents: dict[tuple[str, int, int], list[int]] = {}

    def copy(self) -> WindowModel:
        other = WindowModel(self._windows_of, self._lateness, merging=self._merging)
        other.watermark = self.watermark
        other.contents = {window: list(numbers) for window, numbers in self.contents.items()}
        return other

    def element(self, key: str, time: int, number: int) -> tuple[list[Any], bool]:
        """Return what it makes fire, and whether it is late."""
        fired, taken = [], False
        for start, end in self._windows_of(time):
            merged = [one for one in self.contents if self._merging and one[0] == key and one[1] <= end and one[2] >= start]
            window = (key, min([start, *(one[1] for one in merged)]), max([end, *(one[2] for one in merged)]))
            if window[2] - 1 + self._lateness <= self.watermark:
                continue
            taken = True
            numbers = [number for one in merged for number in self.contents.pop(one)]
            self.contents[window] = [*self.contents.get(window, ()), *numbers, number]
            if window[2] - 1 <= self.watermark:
                fired.append((*window, tuple(sorted(self.contents[window]))))
        return fired, not taken and time + self._lateness <= self.watermark

    def advance(self, watermark: int) -> list[Any]:
        """Return what fires."""
        before, self.watermark = self.watermark, max(watermark, self.watermark)
        due = [one for one in self.contents if before < one[2] - 1 <= self.watermark]
        fired = [(*one, tuple(sorted(self.contents[one]))) for one in due]
        self.contents = {
            one: numbers for one, numbers in self.contents.items() if one[2] - 1 + self._lateness > self.watermark
        }
        return fired


def sliding(size: int, slide: int, offset: int) -> Callable[[int], list[tuple[int, int]]]:
    def windows_of(time: int) -> list[tuple[int, int]]:
        starts = range(time - size + 1, time + 1)
        return [(start, start + size) for start in starts if (start - offset) % slide == 0]

    return windows_of


STREAM = st.lists(
    st.one_of(
        st.tuples(st.just("element"), KEYS, st.integers(-3, 20)),
        st.tuples(st.just("element"), KEYS, st.integers(-3, 20)),
        st.tuples(st.just("watermark"), st.integers(-5, 22)),
        BETWEEN,
    ),
    min_size=15,
    max_size=50,
)


def check_windows(assigner: WindowAssigner, model: WindowModel, stream: list[Any], place: Any, lateness: int) -> None:
    def make(**options: Any) -> Harness:
        return WindowOperatorTestHarness(
            assigner,
            lambda value: value[0],
            Types.STRING(),
            window_function=Collect(),
            allowed_lateness=lateness,
            late_tag=LATE,
            **options,
        )

    subtasks = Subtasks(make, place)
    kept = model.copy()
    try:
        for number, (what, *arguments) in enumerate([*stream, ("watermark", MAX_TIMESTAMP), ("end",)]):
            fired: list[Any] = []
            late: list[Any] = []
            if what == "element":
                key, time = arguments
                element = (key, number, time)
                fired, is_late = model.element(key, time, number)
                late = [element] if is_late else []
                subtasks.owner(key).process_element(element, time)
            elif what == "watermark":
                fired = model.advance(arguments[0])
                for harness in subtasks.harnesses:
                    harness.process_watermark(arguments[0])
            elif what == "roll back":
                subtasks.each(lambda harness: harness.roll_back_epoch())
                model = kept.copy()
            else:
                subtasks.each(lambda harness: harness.end_epoch())
                if what == "restart":
                    subtasks.restart(arguments[0], model.watermark, 0)
                kept = model.copy()
            if what != "roll back":
                assert subtasks.taken(lambda harness: harness.extract_output()) == sorted(fired, key=repr)
                assert subtasks.taken(lambda harness: harness.get_side_output(LATE)) == late
            subtasks.each(lambda harness: harness.clear_output())
        assert [harness.num_keyed_state_entries() for harness in subtasks.harnesses] == [0] * len(subtasks.harnesses)
    finally:
        subtasks.close()


@in_short_and_at_length
def test_sliding_windows_are_those_of_the_model(*, at_length: bool) -> None:
    @of_test(EXAMPLES, at_length=at_length)
    @given(STREAM, PLACES, st.integers(1, 9), st.integers(1, 9), st.integers(-7, 7), st.integers(0, 5))
    def check(stream: list[Any], place: Any, size: int, slide: int, offset: int, lateness: int) -> None:
        offset = int(math.fmod(offset, slide))
        assigner = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide), Time.milliseconds(offset))
        model = WindowModel(sliding(size, slide, offset), lateness, merging=False)
        check_windows(assigner, model, stream, place, lateness)

    check()


@in_short_and_at_length
def test_tumbling_windows_are_those_of_the_model(*, at_length: bool) -> None:
    @of_test(EXAMPLES, at_length=at_length)
    @given(STREAM, PLACES, st.integers(1, 9), st.integers(-7, 7), st.integers(0, 5))
    def check(stream: list[Any], place: Any, size: int, offset: int, lateness: int) -> None:
        offset = int(math.fmod(offset, size))
        assigner = TumblingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(offset))
        check_windows(assigner, WindowModel(sliding(size, size, offset), lateness, merging=False), stream, place, lateness)

    check()


@in_short_and_at_length
def test_sessions_are_those_of_the_model(*, at_length: bool) -> None:
    @of_test(2 * EXAMPLES, at_length=at_length)
    @given(STREAM, PLACES, st.integers(1, 6), st.integers(0, 5))
    def check(stream: list[Any], place: Any, gap: int, lateness: int) -> None:
        assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
        model = WindowModel(lambda time: [(time, time + gap)], lateness, merging=True)
        check_windows(assigner, model, stream, place, lateness)

    check()


COUNT_STREAM = st.lists(st.one_of(KEYS, st.tuples(st.just("restart"), PLACES)), max_size=40)


class CollectNumbers(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        yield key, window.id, tuple(number for _, number in inputs)


@in_short_and_at_length
def test_count_windows_are_slices_of_all_elements(*, at_length: bool) -> None:
    @of_test(EXAMPLES, at_length=at_length)
    @given(
        st.lists(st.one_of(KEYS, st.tuples(st.just("restart"), PLACES)), max_size=40),
        PLACES,
        st.integers(1, 6),
        st.integers(1, 6),
    )
    def check(stream: list[Any], place: Any, size: int, slide: int) -> None:
        def make(**options: Any) -> Harness:
            assigner = CountSlidingWindowAssigner.of(size, slide)
            return WindowOperatorTestHarness(
                assigner, lambda value: value[0], Types.STRING(), window_function=CollectNumbers(), **options
            )

        subtasks = Subtasks(make, place)
        seen: dict[str, list[int]] = {"a": [], "b": [], "c": []}
        output = []
        try:
            for number, item in enumerate(stream):
                if isinstance(item, str):
                    seen[item].append(number)
                    subtasks.owner(item).process_element((item, number))
                else:
                    output += subtasks.taken(lambda harness: harness.extract_output())
                    subtasks.restart(item[1], MIN_TIMESTAMP, 0)
            output += subtasks.taken(lambda harness: harness.extract_output())
        finally:
            subtasks.close()
        expected = [
            (key, start // slide, tuple(numbers[start : start + size]))
            for key, numbers in seen.items()
            for start in range(0, len(numbers) - size + 1, slide)
        ]
        assert sorted(output) == sorted(expected)

    check()


DOMAINS = [TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME]


def follows(time: int) -> int | None:
    """Return the timer that one at a time registers when it fires."""
    return time + 3 if time % 7 == 0 else None


class Ring(KeyedProcessFunction):
    """Does what its elements say: (key, command, domain, time)."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        _, command, domain, time = value
        getattr(ctx.timer_service(), f"{command}_{domain.name.lower()}_timer")(time)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield timestamp, ctx.get_current_key(), ctx.time_domain().name
        later = follows(timestamp)
        if later is not None:
            getattr(ctx.timer_service(), f"register_{ctx.time_domain().name.lower()}_timer")(later)


class TimerModel:
    """A set of timers, looked through for the first one each time."""

    def __init__(self) -> None:
        self.timers: set[tuple[int, str, TimeDomain]] = set()
        self.times = {TimeDomain.EVENT_TIME: MIN_TIMESTAMP, TimeDomain.PROCESSING_TIME: 0}

    def copy(self) -> TimerModel:
        other = TimerModel()
        other.timers, other.times = set(self.timers), dict(self.times)
        return other

    def advance(self, domain: TimeDomain, time: int) -> list[Any]:
        """Return what fires, in the order of times: nothing where a watermark doesn't rise."""
        if domain is TimeDomain.EVENT_TIME and time <= self.times[domain]:
            return []
        self.times[domain] = time = max(time, self.times[domain])
        fired = []
        while due := [one for one in self.timers if one[2] is domain and one[0] <= time]:
            first = min(due, key=lambda one: one[:2])
            self.timers.remove(first)
            fired.append((first[0], first[1], domain.name))
            later = follows(first[0])
            if later is not None:
                self.timers.add((later, first[1], domain))
        return fired


COMMANDS = st.tuples(st.sampled_from(["register", "register", "delete"]), KEYS, st.sampled_from(DOMAINS), st.integers(0, 30))
TIMER_STREAM = st.lists(
    st.one_of(COMMANDS, COMMANDS, st.tuples(st.just("advance"), st.sampled_from(DOMAINS), st.integers(0, 35)), BETWEEN),
    min_size=15,
    max_size=50,
)


@in_short_and_at_length
def test_timers_fire_as_those_of_the_model(*, at_length: bool) -> None:
    @of_test(2 * EXAMPLES, at_length=at_length)
    @given(TIMER_STREAM, PLACES)
    def check(stream: list[Any], place: Any) -> None:
        def make(**options: Any) -> Harness:
            return KeyedOneInputOperatorTestHarness(Ring(), lambda value: value[0], Types.STRING(), **options)

        subtasks = Subtasks(make, place)
        model = TimerModel()
        kept = model.copy()
        event, clock = DOMAINS
        try:
            for what, *arguments in [*stream, ("end",)]:
                fired: list[Any] = []
                if what == "advance":
                    domain, time = arguments
                    fired = model.advance(domain, time)
                    for harness in subtasks.harnesses:
                        if domain is event:
                            harness.process_watermark(time)
                        else:
                            harness.set_processing_time(max(time, harness.get_processing_time()))
                        times = [one[0] for one in harness.extract_output()]
                        assert times == sorted(times)
                elif what in ("register", "delete"):
                    key, domain, time = arguments
                    (set.add if what == "register" else set.discard)(model.timers, (time, key, domain))
                    subtasks.owner(key).process_element((key, what, domain, time))
                elif what == "roll back":
                    subtasks.each(lambda harness: harness.roll_back_epoch())
                    now = model.times[clock]
                    model = kept.copy()
                    model.times[clock] = now  # nobody turns the clock back
                else:
                    subtasks.each(lambda harness: harness.end_epoch())
                    if what == "restart":
                        watermark = model.times[event]
                        model.times[event] = MIN_TIMESTAMP  # it is the engine that brings it again
                        fired = model.advance(event, watermark) + model.advance(clock, model.times[clock])
                        subtasks.restart(arguments[0], watermark, model.times[clock])
                    kept = model.copy()
                if what != "roll back":
                    assert subtasks.taken(lambda harness: harness.extract_output()) == sorted(fired, key=repr)
                subtasks.each(lambda harness: harness.clear_output())
                counts = [(one.num_event_time_timers(), one.num_processing_time_timers()) for one in subtasks.harnesses]
                expected = [sum(one[2] is domain for one in model.timers) for domain in DOMAINS]
                assert [sum(column) for column in zip(*counts, strict=True)] == expected
        finally:
            subtasks.close()

    check()


@pytest.mark.parametrize("offset", range(-4, 5))
def test_the_windows_of_a_time_are_all_around_it(offset: int) -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(9), Time.milliseconds(5), Time.milliseconds(offset))
    context: Any = None
    for time in range(-30, 30):
        found = [(window.start, window.end) for window in assigner.assign_windows(None, time, context)]
        assert sorted(found) == sliding(9, 5, offset)(time)

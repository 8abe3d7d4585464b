"""Sessions, batch by batch, against the operator that takes elements one by one, over random streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import PystateError, RecordError
from pystate.common.time import Time
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.window.assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from pystate.core.api.window.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    Trigger,
    TriggerResult,
)
from pystate.core.api.window.window_functions import ProcessWindowFunction
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MAX_TIMESTAMP, MIN_TIMESTAMP
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.core.state.kinds.map_states import OverlayMapState
from pystate.runtime.slot.operators.windowing.keyed_windows_operator import is_session
from pystate.runtime.slot.operators.windowing.session_tables import SessionTables
from pystate.testing import WindowOperatorTestHarness
from tests.runtime.slot.operators.test_aligned_windows import (
    BACKENDS,
    FUNCTIONS,
    LATE,
    PAIR,
    STEP,
    Sum,
    make,
    restarted,
    spill,
    stored_entries,
)


class Describe(ProcessWindowFunction):
    """Asks for all that there is; windows that merge have no state of their own."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        window = context.window()
        yield key, window.start, window.end, list(elements), fired.value(), context.current_watermark()

    def clear(self, context: Any) -> None:
        context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG())).clear()


class ByValue(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple[str, int]) -> int:
        return 3 + 4 * element[1]


class WithoutMerge(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    merge = None  # type: ignore[assignment]


@pytest.fixture(autouse=True, scope="module")
def described() -> Iterable[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FUNCTIONS, "described", {**FUNCTIONS["described"], "window_function": Describe()})
        yield


@settings(max_examples=30, deadline=None)
@given(
    st.one_of(st.builds(EventTimeSessionWindows, st.integers(2, 20)), st.just(DynamicEventTimeSessionWindows(ByValue()))),
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(BACKENDS),
    st.lists(STEP, max_size=25),
)
def test_batches_give_what_elements_give(assigner: Any, functions: str, backend: str, steps: list[Any]) -> None:
    both = [make(assigner, functions, backend, aligned=aligned) for aligned in (True, False)]
    for aligned, harness in zip((True, False), both, strict=True):
        (head,) = [one for one in harness._chain.operators if one.timers is not None]
        assert (head.process_batch is not None) is aligned
    ways = [True, False]

    def same() -> None:
        one, other = both
        assert sorted(one.extract_output(), key=repr) == sorted(other.extract_output(), key=repr)
        assert one.get_side_output(LATE) == other.get_side_output(LATE)
        assert one.num_event_time_timers() == other.num_event_time_timers()

    for what, argument in [*steps, ("watermark", MAX_TIMESTAMP), ("end", None)]:
        if what == "restart":
            ways.reverse()  # what one has written the other one reads
            both = [
                restarted(harness, assigner, functions, argument, aligned=aligned)
                for harness, aligned in zip(both, ways, strict=True)
            ]
            continue
        for harness in both:
            if what == "elements":
                harness.process_elements([(key, value) for key, value, _ in argument], [time for _, _, time in argument])
            elif what == "watermark":
                harness.process_watermark(argument)
            elif what == "end":
                harness.end_epoch()
            elif what == "spill":
                spill(harness)
            elif what == "snapshot":
                harness.snapshot(1)
            else:
                harness.roll_back_epoch()
        same()
        if what == "snapshot":
            assert both[0].num_keyed_state_entries() == both[1].num_keyed_state_entries()
    for harness in both:
        assert harness.num_keyed_state_entries() == 0
        harness.close()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_session_that_fires_before_a_snapshot_never_gets_to_the_backend(backend: str) -> None:
    harness = make(EventTimeSessionWindows(10), "sum", backend)
    harness.process_elements([("a", 1), ("b", 2), ("a", 3)], [1, 2, 9])
    harness.end_epoch()
    assert stored_entries(harness) == 0
    harness.process_elements([("a", 4), ("b", 5)], [19, 30])  # a's session becomes longer, b has another one
    harness.process_watermark(11)
    harness.roll_back_epoch()  # so these sessions are open again, as they were
    assert harness.num_event_time_timers() == 2
    harness.process_watermark(18)
    harness.end_epoch()
    assert sorted(harness.extract_output()) == [2, 4]
    assert stored_entries(harness) == 0
    harness.process_elements([("c", 7)], [20])
    harness.end_epoch()
    harness.snapshot(1)
    assert stored_entries(harness) == 3  # contents, the window among those that merge, a timer
    harness.process_elements([("c", 1)], [25])
    harness.process_watermark(MAX_TIMESTAMP)
    harness.end_epoch()
    assert sorted(harness.extract_output())[-1] == 8
    assert stored_entries(harness) == 0
    harness.close()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_sessions_that_take_too_much_memory_are_written(backend: str) -> None:
    harness = WindowOperatorTestHarness(
        EventTimeSessionWindows(10),
        lambda value: value[0],
        Types.STRING(),
        input_type=PAIR,
        state_backend=backend,
        job_parameters={PystateOptions.STATE_WINDOW_MEMORY.key: "20 kb"},
        **FUNCTIONS["sum"],
    )
    harness.open()
    harness.process_elements([(f"key {number}", 1) for number in range(1_000)], [1] * 1_000)
    harness.end_epoch()
    assert stored_entries(harness) == 3 * 1_000
    harness.process_elements([("key 30", 1), ("another", 7)], [5, 2])
    harness.process_watermark(MAX_TIMESTAMP)
    harness.end_epoch()
    assert sorted(harness.extract_output()) == sorted([7, 2, *[1] * 999])
    assert stored_entries(harness) == 0
    harness.close()


def harness_of(backend: str, gap: int = 10, **options: Any) -> WindowOperatorTestHarness:
    options = {**FUNCTIONS["sum"], **options}
    assigner = EventTimeSessionWindows(gap)
    return WindowOperatorTestHarness(assigner, lambda value: value[0], input_type=PAIR, state_backend=backend, **options)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("trigger", [None, CountTrigger.of(1)])
@pytest.mark.parametrize("lateness", [50, MAX_TIMESTAMP])  # with the latter there is no timer that cleans up
def test_a_restored_session_that_has_fired_fires_again_with_its_contents(
    backend: str, trigger: CountTrigger | None, lateness: int
) -> None:
    with harness_of(backend, allowed_lateness=lateness, trigger=trigger) as old:
        old.open()
        old.process_element(("a", 1), 0)
        old.process_watermark(20)
        assert old.extract_output() == [1]
        snapshot = old.snapshot(1)
    with harness_of(backend) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        harness.process_element(("a", 2), 0)
        timers = harness.num_event_time_timers()
        harness.end_epoch()
        assert harness.num_event_time_timers() == timers
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.extract_output() == [3]
        harness.end_epoch()
        assert harness.num_event_time_timers() == 0


class EarlyTrigger(Trigger):
    """Has a timer before the end of a window only."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.start + 3)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    on_processing_time = on_event_time

    def can_merge(self) -> bool:
        return True

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        pass


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_restored_session_with_a_timer_before_its_end_fires_at_its_end(backend: str) -> None:
    with harness_of(backend, allowed_lateness=50, trigger=EarlyTrigger()) as old:
        old.open()
        old.process_element(("a", 1), 0)
        snapshot = old.snapshot(1)
    with harness_of(backend) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        harness.process_watermark(8)
        assert harness.extract_output() == []
        harness.process_watermark(9)
        assert harness.extract_output() == [1]
        harness.end_epoch()
        assert harness.num_keyed_state_entries() == 1  # the timer of the old step's cleanup


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_each_session_of_a_key_and_each_accumulator_counts_as_memory(backend: str) -> None:
    options = {PystateOptions.STATE_WINDOW_MEMORY.key: "200 kb", PystateOptions.STATE_EPOCH_MEMORY.key: "200 kb"}
    reduced = {"aggregate_function": None, "accumulator_type": None, "reduce_function": max}
    for elements, times in (
        ([("a", 1)] * 1_000, [3 * number for number in range(1_000)]),  # of one key
        ([("x" * 30_000 + str(number), 1) for number in range(20)], [0] * 20),
    ):
        with harness_of(backend, gap=1, job_parameters=options, **reduced) as harness:
            harness.open()
            harness.process_elements(elements, times)
            if backend == "rocksdb":
                assert harness._chain.backend.has_spilled  # type: ignore[union-attr]
            harness.end_epoch()
            assert stored_entries(harness) == 3 * len(elements)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_sessions_stay_in_memory_after_a_snapshot_and_the_next_one_has_what_has_changed(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    store_all = Accumulators.store_all
    monkeypatch.setattr(
        Accumulators, "store_all", lambda self, *columns: (written.append(len(columns[0])), store_all(self, *columns))
    )
    with harness_of(backend) as harness:
        harness.open()
        harness.process_elements([(f"key {number}", 1) for number in range(100)], [1] * 100)
        harness.end_epoch()
        harness.snapshot(1)
        with monkeypatch.context() as patch:
            patch.setattr(OverlayMapState, "items", None)  # nothing is read back, nor what the state doesn't have
            harness.process_elements([("key 3", 1), ("key 4", 1), ("new", 1)], [5, 1, 2])
            harness.roll_back_epoch()
            harness.process_elements([("key 3", 1), ("key 4", 1), ("new", 1)], [5, 1, 2])
            harness.end_epoch()
        harness.snapshot(2)
        assert written == [100, 3]
        assert stored_entries(harness) == 3 * 101
        harness.snapshot(3)
        harness.process_watermark(MAX_TIMESTAMP)
        harness.end_epoch()
        assert written == [100, 3]
        assert sorted(harness.extract_output()) == [*[1] * 99, 2, 2]
        assert stored_entries(harness) == 0


def test_the_end_of_an_epoch_takes_no_time_for_each_session_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []
    add_due = SessionTables._add_due
    monkeypatch.setattr(SessionTables, "_add_due", lambda self, key, end: (noted.append(end), add_due(self, key, end)))
    with harness_of("hashmap") as harness:
        harness.open()
        harness.process_elements([(f"key {number}", 1) for number in range(100)], [1] * 100)
        harness.end_epoch()
        harness.process_element(("key 3", 1), 5)
        harness.end_epoch()
        assert len(noted) == 101
        for number in range(2_000):  # times at which the session no longer ends are dropped
            harness.process_element(("key 3", 1), 6 + number)
        harness.end_epoch()
        (tables,) = harness._chain.backend._fronts()  # type: ignore[union-attr]
        assert len(tables._due) == 2
        harness.process_watermark(MAX_TIMESTAMP)
        assert sorted(harness.extract_output()) == [1] * 99 + [2_002]


@pytest.mark.parametrize("time", [MIN_TIMESTAMP, MAX_TIMESTAMP - 9, MAX_TIMESTAMP])
def test_times_that_no_window_can_have_are_rejected(time: int) -> None:
    with harness_of("hashmap") as harness:
        harness.open()
        with pytest.raises(PystateError, match="without a timestamp|can't be the time"):
            harness.process_element(("a", 1), time)


@pytest.mark.parametrize("gap", [5.0, "5", None])
def test_a_gap_is_an_integer(gap: Any) -> None:
    class Given(SessionWindowTimeGapExtractor):
        def extract(self, element: tuple[str, int]) -> int:
            return 5 if element[0] == "a" else gap  # type: ignore[no-any-return]

    with make(DynamicEventTimeSessionWindows(Given()), "sum", "hashmap") as harness:
        harness.process_element(("a", 1), 3)
        with pytest.raises(RecordError, match="must be an integer above 0"):
            harness.process_element(("b", 1), 3)


def test_which_sessions_are_taken_batch_by_batch() -> None:
    def operation(assigner: Any = None, trigger: Any = None, **more: Any) -> WindowOperation:
        function = more.pop("aggregate_function", Sum())
        assigner = assigner or EventTimeSessionWindows(10)
        return WindowOperation(assigner, trigger or EventTimeTrigger(), aggregate_function=function, **more)

    assert is_session(operation())
    assert not is_session(operation(ProcessingTimeSessionWindows(10)))
    assert not is_session(operation(trigger=ContinuousEventTimeTrigger.of(Time.milliseconds(5))))
    assert not is_session(operation(allowed_lateness=1))
    assert not is_session(operation(aggregate_function=None))
    assert not is_session(operation(aggregate_function=WithoutMerge()))

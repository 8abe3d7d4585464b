"""Aligned windows, batch by batch, against the operator that takes elements one by one, over random streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import PystateError, StateError
from pystate.common.time import Time
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.window.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pystate.core.api.window.triggers import ContinuousEventTimeTrigger, EventTimeTrigger
from pystate.core.api.window.window_functions import ProcessWindowFunction
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MAX_TIMESTAMP
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.runtime.slot.operators.windowing import keyed_windows_operator
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator
from pystate.runtime.slot.operators.windowing.keyed_windows_operator import is_aligned
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator
from pystate.testing import WindowOperatorTestHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late")
SPILLING = "rocksdb that spills"
BACKENDS = ("hashmap", "rocksdb", SPILLING)


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[str, int], accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int | None:
        return accumulator or None  # a window whose result is None emits nothing

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Collect(AggregateFunction):
    """Changes its accumulator in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: tuple[str, int], accumulator: list[int]) -> list[int]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


class Describe(ProcessWindowFunction):
    """Asks for all that there is, and keeps states of both kinds."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        context.window_state().get_state(ValueStateDescriptor("here", Types.LONG())).update(1)
        window = context.window()
        yield key, window.start, window.end, list(elements), fired.value(), context.current_watermark()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("here", Types.LONG())).clear()


FUNCTIONS: dict[str, dict[str, Any]] = {
    "sum": {"aggregate_function": Sum(), "accumulator_type": Types.LONG()},
    "lists": {"aggregate_function": Collect(), "accumulator_type": Types.LIST(Types.LONG())},
    "untyped": {"aggregate_function": Collect()},
    "described": {"aggregate_function": Sum(), "accumulator_type": Types.LONG(), "window_function": Describe()},
    "reduced": {"reduce_function": lambda one, other: (one[0], one[1] + other[1])},
}
TIMES = st.integers(-30, 60)
ELEMENTS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3), TIMES), min_size=1, max_size=12)
STEP = st.one_of(
    st.tuples(st.just("elements"), ELEMENTS),
    st.tuples(st.just("watermark"), TIMES),
    st.tuples(st.sampled_from(["end", "end", "roll back", "spill", "snapshot"]), st.none()),
    st.tuples(st.just("restart"), st.sampled_from(BACKENDS)),
)


def make(
    assigner: Any, functions: str, backend: str, snapshot: Any = None, *, aligned: bool = True
) -> WindowOperatorTestHarness:
    options: dict[str, Any] = {"state_backend": backend}
    if backend == SPILLING:
        options = {"state_backend": "rocksdb", "job_parameters": {PystateOptions.STATE_EPOCH_MEMORY.key: "1 b"}}
    with pytest.MonkeyPatch.context() as patch:
        if not aligned:
            patch.setattr(keyed_windows_operator, "is_aligned", lambda operation: False)
            patch.setattr(keyed_windows_operator, "is_session", lambda operation: False)
        harness = WindowOperatorTestHarness(
            assigner,
            lambda value: value[0],
            Types.STRING(),
            late_tag=LATE,
            input_type=PAIR,
            **options,
            **FUNCTIONS[functions],
        )
        if snapshot is not None:
            harness.initialize_state(snapshot)
        harness.open()
        return harness


def spill(harness: WindowOperatorTestHarness) -> None:
    """Move the running epoch to disk, however small; on hashmap write back what is kept."""
    backend: Any = harness._chain.backend
    if isinstance(backend, RocksDBKeyedStateBackend):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend._spill, "is_due", lambda *_: True)
            backend.limit_epoch(1, 1)
    else:
        backend._write_back_fronts()


def restarted(old: WindowOperatorTestHarness, assigner: Any, functions: str, backend: str, *, aligned: bool) -> Any:
    old.end_epoch()
    snapshot = old.snapshot(1)
    old.close()
    return make(assigner, functions, backend, snapshot, aligned=aligned)


@settings(max_examples=20, deadline=None)
@given(
    st.one_of(
        st.builds(TumblingEventTimeWindows, st.integers(5, 20), st.integers(-4, 4)),
        st.builds(SlidingEventTimeWindows, st.integers(1, 20), st.integers(3, 12), st.integers(-2, 2)),
    ),
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
        left = (
            0 if functions != "described" else len({key for step in steps if step[0] == "elements" for key, _, _ in step[1]})
        )
        assert harness.num_keyed_state_entries() <= left
        harness.close()


def stored_entries(harness: WindowOperatorTestHarness) -> int:
    """Return how many entries contents and timers have in the backend, without what is kept before them."""
    backend: Any = harness._chain.backend
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(backend), "_write_back_fronts", lambda _: None)
        count: int = backend.entry_count()
        return count


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_window_that_fires_before_a_snapshot_never_gets_to_the_backend(backend: str) -> None:
    harness = make(SlidingEventTimeWindows(20, 10), "sum", backend)
    harness.process_elements([("a", 1), ("b", 2), ("a", 3)], [1, 2, 15])
    harness.process_watermark(9)
    harness.end_epoch()
    assert stored_entries(harness) == 0
    harness.process_elements([("a", 1), ("c", 4)], [16, 17])
    harness.process_watermark(19)
    harness.roll_back_epoch()  # so these windows are open again, without the second epoch's elements
    assert harness.num_event_time_timers() == 3
    harness.process_watermark(19)
    harness.end_epoch()
    assert sorted(harness.extract_output()) == [1, 2, 2, 4]
    assert stored_entries(harness) == 0
    harness.snapshot(1)
    assert stored_entries(harness) == 2  # the window of a that is open, and its timer
    harness.process_watermark(MAX_TIMESTAMP)
    harness.end_epoch()
    assert stored_entries(harness) == 0
    harness.close()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_that_take_too_much_memory_are_written(backend: str) -> None:
    harness = WindowOperatorTestHarness(
        TumblingEventTimeWindows(10),
        lambda value: value[0],
        Types.STRING(),
        input_type=PAIR,
        state_backend=backend,
        job_parameters={PystateOptions.STATE_WINDOW_MEMORY.key: "20 kb"},
        **FUNCTIONS["sum"],
    )
    harness.open()
    harness.process_elements([(f"key {number}", 1) for number in range(50)], [1] * 50)
    harness.end_epoch()
    assert stored_entries(harness) == 0
    harness.process_elements([(f"key {number}", 1) for number in range(20, 1_020)], [1] * 1_000)
    harness.end_epoch()
    assert stored_entries(harness) == 2 * 1_020
    harness.process_elements([("key 30", 1), ("another", 7)], [1, 2])
    harness.process_watermark(9)
    harness.end_epoch()
    assert sorted(harness.extract_output()) == sorted([7, 3, *[2] * 29, *[1] * 990])
    assert stored_entries(harness) == 0
    harness.close()


@pytest.mark.parametrize(
    ("functions", "value", "expected"),
    [("sum", ("a", "text"), "unsupported operand"), ("reduced", ("a", 1 << 70), "64")],
)
def test_what_cant_be_added_is_refused_as_ever(functions: str, value: Any, expected: str) -> None:
    messages = []
    for aligned in (True, False):
        harness = make(TumblingEventTimeWindows(10), functions, "hashmap", aligned=aligned)
        with pytest.raises((PystateError, TypeError)) as caught:
            harness.process_elements([value], [1])
        messages.append(str(caught.value))
        harness.close()
    assert messages[0] == messages[1]


def test_none_from_add_is_refused() -> None:
    class Forgets(Sum):
        def add(self, value: Any, accumulator: Any) -> Any:
            return None

    FUNCTIONS["forgets"] = {"aggregate_function": Forgets(), "accumulator_type": Types.LONG()}
    harness = make(TumblingEventTimeWindows(10), "forgets", "hashmap")
    with pytest.raises(StateError, match=r"returned None from add\(\)"):
        harness.process_element(("a", 1), 1)
    harness.close()
    del FUNCTIONS["forgets"]


def test_only_what_is_known_to_behave_takes_batches() -> None:
    tumbling, trigger, total = TumblingEventTimeWindows(10), EventTimeTrigger(), Sum()
    assert is_aligned(WindowOperation(tumbling, trigger, aggregate_function=total))

    class Own(TumblingEventTimeWindows):
        pass

    for operation in (
        WindowOperation(tumbling, trigger),
        WindowOperation(tumbling, trigger, 1, aggregate_function=total),
        WindowOperation(Own(10), trigger, aggregate_function=total),
        WindowOperation(TumblingProcessingTimeWindows(10), trigger, aggregate_function=total),
        WindowOperation(tumbling, ContinuousEventTimeTrigger.of(Time.milliseconds(5)), aggregate_function=total),
    ):
        assert not is_aligned(operation)
    assert issubclass(AlignedWindowOperator, WindowOperator)


def test_of_a_window_that_has_state_each_key_is_read_once_and_of_a_new_one_none() -> None:
    asked = []
    harness = make(TumblingEventTimeWindows(10), "sum", "hashmap")
    tables = harness._chain.operators[-1].process_batch.__self__._tables  # type: ignore[union-attr]
    accumulators = tables._accumulators

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(accumulators, name)

        def read(self, address: Any, key_group: int) -> Any:
            asked.append(address[0])
            return accumulators.read(address, key_group)

    tables._accumulators = Watched()
    harness.process_elements([("a", 1), ("b", 1), ("a", 1), ("c", 1_000)], [1, 2, 3, 100_000])
    harness.end_epoch()
    harness.snapshot(1)
    harness.process_elements([("a", 1), ("a", 1), ("d", 1), ("a", 5)], [1, 2, 3, 11])  # 11: before one with state
    assert asked == ["a", "d"]
    assert harness.num_event_time_timers() == 5
    harness.process_watermark(19)
    assert sorted(harness.extract_output()) == [1, 1, 4, 5]
    harness.close()

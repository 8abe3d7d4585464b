"""Sliding windows that share panes, against windows that don't and against an offline count, over random streams."""

from __future__ import annotations

import collections
import copy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pystate.common import TypeInformation, Types
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.core.api.aggregation import AccumulateType, ElementCount, FieldAggregation
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.core.api.window.triggers import EventTimeTrigger
from pystate.core.api.window.window_functions import ProcessWindowFunction, WindowFunction
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MAX_TIMESTAMP
from pystate.core.snapshot.reading.window_states import PaneState
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.runtime.slot.operators.windowing import keyed_windows_operator
from pystate.runtime.slot.operators.windowing.keyed_windows_operator import pane_state
from pystate.testing import WindowOperatorTestHarness
from pystate.testing.harness import OperatorTestHarness

LATE = OutputTag("late")
SPILLING = "rocksdb that spills"
BACKENDS = ("hashmap", "rocksdb", SPILLING)
MAX_PARALLELISM = 128
KEYS = 4


class WithKey(WindowFunction):
    def apply(self, key: int, window: Any, inputs: Any) -> list[Any]:
        return [(key, window.start, window.end, *inputs)]


FUNCTIONS: dict[str, dict[str, Any]] = {
    "count": {"aggregate_function": ElementCount(), "accumulator_type": Types.LONG()},
    "sum": {"reduce_function": FieldAggregation(AccumulateType.SUM, 0)},
    "min": {"reduce_function": FieldAggregation(AccumulateType.MIN, 0)},
    "max": {"reduce_function": FieldAggregation(AccumulateType.MAX, 0)},
}
OFFLINE: dict[str, Any] = {"count": len, "sum": sum, "min": min, "max": max}
TIMES = st.integers(-30, 60)
ELEMENTS = st.lists(st.tuples(st.integers(-9, 9), TIMES), min_size=1, max_size=12)
STEP = st.one_of(
    st.tuples(st.just("elements"), ELEMENTS),
    st.tuples(st.just("elements"), ELEMENTS),
    st.tuples(st.just("watermark"), TIMES),
    st.tuples(st.sampled_from(["end", "end", "roll back", "spill", "snapshot"]), st.none()),
    st.tuples(st.just("restart"), st.tuples(st.sampled_from(BACKENDS), st.integers(1, 3), st.booleans())),
)
ASSIGNERS = st.builds(
    lambda slide, slides, offset: SlidingEventTimeWindows(slide * slides, slide, offset),
    st.integers(2, 7),
    st.integers(2, 5),
    st.integers(-1, 1),
)


class Windows:
    """Subtasks of a step with windows.

    Args:
        assigner: Of the windows.
        function: One of `FUNCTIONS`.
        backend: One of `BACKENDS`.
        shared: Whether windows share panes.
        snapshots: What they start from.
        parallelism: How many.
    """

    def __init__(
        self,
        assigner: Any,
        function: str,
        backend: str,
        *,
        shared: bool = True,
        snapshots: Any = (),
        parallelism: int = 1,
        **options: Any,
    ) -> None:
        self.how = assigner, function
        self.subtasks = []
        shares: list[Any] = [None] * parallelism
        if snapshots:
            shares = OperatorTestHarness.repartition(snapshots, len(snapshots), parallelism, MAX_PARALLELISM)
        if backend == SPILLING:
            backend, options["job_parameters"] = "rocksdb", {PystateOptions.STATE_EPOCH_MEMORY.key: "1 b"}
        with pytest.MonkeyPatch.context() as patch:
            if not shared:
                patch.setattr(keyed_windows_operator, "pane_state", lambda *_: None)
                patch.setattr(keyed_windows_operator, "is_aligned", lambda *_: False)
            for index, share in enumerate(shares):
                harness = WindowOperatorTestHarness(
                    assigner,
                    lambda value: value % KEYS,
                    Types.LONG(),
                    late_tag=LATE,
                    input_type=Types.LONG(),
                    state_backend=backend,
                    subtask_index=index,
                    parallelism=parallelism,
                    max_parallelism=MAX_PARALLELISM,
                    **{"window_function": WithKey(), **FUNCTIONS[function], **options},
                )
                if share is not None:
                    harness.initialize_state(share)
                harness.open()
                self.subtasks.append(harness)

    def do(self, what: str, argument: Any) -> None:
        for harness in self.subtasks:
            if what == "elements":
                mine = [(value, time) for value, time in argument if harness.owns_key(value % KEYS)]
                harness.process_elements([value for value, _ in mine], [time for _, time in mine])
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

    def restarted(self, backend: str, parallelism: int, *, shared: bool, **options: Any) -> Windows:
        self.do("end", None)
        snapshots = [harness.snapshot(1) for harness in self.subtasks]
        self.close()
        return Windows(*self.how, backend, shared=shared, snapshots=snapshots, parallelism=parallelism, **options)

    @property
    def watermark(self) -> int:
        (watermark,) = {harness.current_watermark() for harness in self.subtasks}
        return watermark

    def output(self) -> list[Any]:
        return sorted(result for harness in self.subtasks for result in harness.extract_output())

    def late(self) -> list[Any]:
        return sorted(value for harness in self.subtasks for value in harness.get_side_output(LATE))

    def entries(self) -> int:
        return sum(harness.num_keyed_state_entries() for harness in self.subtasks)

    def timers(self) -> int:
        return sum(harness.num_event_time_timers() for harness in self.subtasks)

    def close(self) -> None:
        for harness in self.subtasks:
            harness.close()


def spill(harness: WindowOperatorTestHarness) -> None:
    """Move the running epoch to disk, however small; on hashmap write back what is kept."""
    backend: Any = harness._chain.backend
    if isinstance(backend, RocksDBKeyedStateBackend):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend._spill, "is_due", lambda *_: True)
            backend.limit_epoch(1, 1)
    else:
        backend._write_back_fronts()


class Offline:
    """What the windows have to give, by keeping every element."""

    def __init__(self, assigner: Any, function: str) -> None:
        self._assigner = assigner
        self._function = OFFLINE[function]
        self._open: dict[tuple[int, int, int], list[int]] = collections.defaultdict(list)
        self._before = copy.deepcopy(self._open)
        self.fired: list[Any] = []
        self.kept: list[Any] = []

    def do(self, what: str, argument: Any, watermark: int) -> None:
        if what == "elements":
            for value, time in argument:
                for window in self._assigner.assign_windows(value, time, None):
                    if window.end - 1 > watermark:
                        self._open[value % KEYS, window.start, window.end].append(value)
        elif what == "watermark":
            for key, start, end in [one for one in self._open if one[2] - 1 <= argument]:
                self.fired.append((key, start, end, self._function(self._open.pop((key, start, end)))))
        elif what in ("end", "snapshot"):  # which ends the epoch, too
            self._before, self.kept = copy.deepcopy(self._open), list(self.fired)
        elif what == "roll back":
            self._open, self.fired = copy.deepcopy(self._before), list(self.kept)


@settings(max_examples=25, deadline=None)
@given(ASSIGNERS, st.sampled_from(sorted(FUNCTIONS)), st.sampled_from(BACKENDS), st.lists(STEP, max_size=25))
@example(
    SlidingEventTimeWindows(12, 4),
    "count",
    SPILLING,
    [
        ("elements", [(1, 1), (1, 5), (2, 9)]),
        ("end", None),
        ("watermark", 3),
        ("spill", None),
        ("watermark", 7),
        ("roll back", None),
        ("watermark", 7),
        ("end", None),
        ("restart", ("hashmap", 2, True)),
        ("elements", [(1, 9)]),
        ("watermark", 11),
    ],
)
def test_shared_panes_give_what_windows_of_their_own_give(
    assigner: Any, function: str, backend: str, steps: list[Any]
) -> None:
    panes, plain = Windows(assigner, function, backend), Windows(assigner, function, backend, shared=False)
    offline = Offline(assigner, function)
    shared = True
    for what, argument in [*steps, ("watermark", MAX_TIMESTAMP), ("end", None)]:
        watermark = panes.watermark
        if what == "restart":
            backend, parallelism, swap = argument
            shared = shared is not swap  # what one has written the other one reads
            offline.do("end", None, 0)
            offline.fired, offline.kept = [], []
            panes = panes.restarted(backend, parallelism, shared=shared)
            plain = plain.restarted(backend, parallelism, shared=not shared)
            for windows in (panes, plain):  # watermarks of jobs outlive a change of parallelism; these don't
                windows.do("watermark", watermark)
            continue
        panes.do(what, argument)
        plain.do(what, argument)
        offline.do(what, max(argument, watermark) if what == "watermark" else argument, watermark)
        assert panes.output() == plain.output() == sorted(offline.fired)
        assert panes.late() == plain.late()
    for windows in (panes, plain):
        assert windows.entries() == windows.timers() == 0
        windows.close()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(ASSIGNERS, st.sampled_from(sorted(FUNCTIONS)), st.sampled_from(BACKENDS), st.lists(STEP, max_size=25))
def test_shared_panes_at_length(assigner: Any, function: str, backend: str, steps: list[Any]) -> None:
    inner: Any = test_shared_panes_give_what_windows_of_their_own_give
    inner.hypothesis.inner_test(assigner, function, backend, steps)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_an_element_is_kept_in_one_pane_with_one_timer_and_a_window_fires_from_there(backend: str) -> None:
    windows = Windows(SlidingEventTimeWindows(60, 5), "count", backend)
    windows.do("elements", [(value, 12) for value in (0, 1, 2, 4)])
    windows.do("watermark", 30)
    windows.do("snapshot", None)
    assert windows.entries() == 3 * 2  # a pane and its timer for each key, in place of eight windows
    (task,) = windows.subtasks
    names = [name for name in task._chain.backend.state_names() if not name.startswith("_timer")]
    assert names == ["pane-contents-count-60-5"]
    windows.do("watermark", 69)
    assert [(0, 10, 70, 2), (1, 10, 70, 1), (2, 10, 70, 1)] == [one for one in windows.output() if one[2] == 70]
    windows.do("end", None)
    assert windows.entries() == windows.timers() == 0
    windows.close()


LATER: list[tuple[Any, dict[str, Any]]] = [
    (SlidingEventTimeWindows(12, 4), {"allowed_lateness": 5}),
    (SlidingEventTimeWindows(12, 6), {}),
    (SlidingEventTimeWindows(24, 4), {}),
    (SlidingEventTimeWindows(12, 4, 2), {}),
    (SlidingEventTimeWindows(4, 2), {}),
    (SlidingEventTimeWindows(10, 4), {}),
    (TumblingEventTimeWindows(12), {}),
    (TumblingEventTimeWindows(4), {}),
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("assigner", "options"), LATER, ids=str)
def test_windows_go_on_where_a_step_comes_back_with_others(assigner: Any, options: dict[str, Any], backend: str) -> None:
    answers = []
    for shared in (True, False):
        windows = Windows(SlidingEventTimeWindows(12, 4), "sum", backend, shared=shared)
        windows.do("elements", [(1, 1), (5, 6), (2, 9), (9, 14)])
        windows.do("watermark", 7)
        windows.how = assigner, "sum"
        windows = windows.restarted(backend, 1, shared=shared, **options)
        windows.do("elements", [(13, 9), (2, 17)])
        windows.do("watermark", 11)
        windows.do("end", None)
        found = windows.output()
        windows.do("watermark", MAX_TIMESTAMP)
        windows.do("end", None)
        answers.append((found, windows.output(), windows.entries(), windows.timers()))
        windows.close()
    assert answers[0] == answers[1]
    assert answers[0][2:] == (0, 0)


class Firings(ProcessWindowFunction):
    """Has a state of the window."""

    COUNT = ValueStateDescriptor("count", Types.LONG())

    def process(self, key: int, context: ProcessWindowFunction.Context, elements: Any) -> list[Any]:
        context.window_state().get_state(self.COUNT).update(1)
        return [(key, context.window().start, *elements)]

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        context.window_state().get_state(self.COUNT).clear()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_that_allowed_lateness_are_gone_when_those_of_now_share_panes(backend: str) -> None:
    """Those that have fired, and wait for late elements only, fire no more."""
    options = {"window_function": Firings()}
    windows = Windows(SlidingEventTimeWindows(12, 4), "sum", backend, allowed_lateness=50, **options)
    windows.do("elements", [(1, 1), (5, 6), (2, 9), (9, 14)])
    windows.do("watermark", 11)
    fired = windows.output()
    windows = windows.restarted(backend, 1, shared=True, **options)
    windows.do("watermark", 11)
    windows.do("elements", [(4, 2)])  # late for all windows but the one from 0 on, which has fired
    windows.do("watermark", MAX_TIMESTAMP)
    windows.do("end", None)
    assert fired == [(1, -8, 1), (1, -4, 6), (1, 0, 6), (2, 0, 2)]
    assert windows.output() == [(1, 4, 14), (1, 8, 9), (1, 12, 9), (2, 4, 2), (2, 8, 2)]
    assert (windows.entries(), windows.timers()) == (0, 0)
    windows.close()


def test_a_step_that_keeps_all_elements_refuses_panes() -> None:
    windows = Windows(SlidingEventTimeWindows(12, 4), "count", "hashmap")
    windows.do("elements", [(1, 1)])
    windows.do("end", None)
    snapshots = [harness.snapshot(1) for harness in windows.subtasks]
    windows.close()
    FUNCTIONS["all"] = {}
    with pytest.raises(RestoreError, match=r"pane-contents-count-12-4|keeps all elements|AGGREGATING"):
        Windows(SlidingEventTimeWindows(12, 4), "all", "hashmap", snapshots=snapshots)
    del FUNCTIONS["all"]


def test_only_windows_of_which_order_is_known_to_make_no_difference_share_panes() -> None:
    sliding, trigger = SlidingEventTimeWindows(12, 4), EventTimeTrigger()
    number, pair = Types.LONG(), Types.TUPLE([Types.STRING(), Types.LONG()])

    def of(
        assigner: Any, type_info: TypeInformation, kind: AccumulateType | None = None, lateness: int = 0, **functions: Any
    ) -> PaneState | None:
        if kind is not None:
            functions = {"reduce_function": FieldAggregation(kind, 0)}
        return pane_state(WindowOperation(assigner, trigger, lateness, **functions), type_info)

    class Own(ElementCount):
        pass

    count: dict[str, AggregateFunction] = {"aggregate_function": ElementCount()}
    assert of(sliding, pair, **count) == PaneState("count", 12, 4)
    assert of(sliding, number, AccumulateType.SUM) == PaneState("sum", 12, 4)
    assert of(sliding, Types.SHORT(), AccumulateType.MAX) == PaneState("max", 12, 4)
    assert of(sliding, Types.SHORT(), AccumulateType.SUM) is None  # panes may be beyond it where windows aren't
    assert of(sliding, Types.DOUBLE(), AccumulateType.SUM) is None
    assert of(sliding, pair, AccumulateType.MIN) is None
    assert of(sliding, number, AccumulateType.MIN_BY) is None
    assert of(sliding, number, aggregate_function=Own()) is None
    assert of(sliding, number, reduce_function=min) is None
    assert of(sliding, number, lateness=1, **count) is None
    assert of(SlidingEventTimeWindows(10, 4), number, **count) is None
    assert of(SlidingEventTimeWindows(4, 4), number, **count) is None
    assert of(TumblingEventTimeWindows(4), number, **count) is None


def test_a_sum_beyond_its_type_fails() -> None:
    windows = Windows(SlidingEventTimeWindows(12, 4), "sum", "hashmap")
    windows.do("elements", [((1 << 63) - 4, 1), (4, 5)])
    with pytest.raises(StateError, match="LONG"):
        windows.do("watermark", 7)
    windows.close()


def test_the_name_of_a_state_of_panes_says_what_it_is() -> None:
    panes = PaneState("min", 12, 4)
    assert PaneState.of(panes.name) == panes
    assert PaneState.of("pane-contents") is None
    for name in ("pane-contents-mean-12-4", "pane-contents-min-12", "pane-contents-min-12-5", "pane-contents-min-4-4"):
        with pytest.raises(CorruptSnapshotError, match="no name"):
            PaneState.of(name)
    assert [panes.due(8, watermark) for watermark in (-100, 10, 11, 15, 18, 19)] == [11, 11, 15, 19, 19, None]
    assert list(panes.windows(8, 15)) == [(4, 16), (8, 20)]

"""Timers as every backend keeps them: a set ordered by time per key group, part of epochs and snapshots."""

from __future__ import annotations

import io
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateDeclarationError, StateError
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.loader import state_backend_names
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, TimerSchema, time_to_bytes
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalReader, CanonicalWriter, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.core.state.keys.namespaces import TIME_WINDOWS, KeyNamespaceSerializer
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness

EVENT = TimerSchema("window-timers", TimeDomain.EVENT_TIME, TIME_WINDOWS)
PROCESSING = TimerSchema("user-timers", TimeDomain.PROCESSING_TIME)
WINDOW, OTHER_WINDOW = (0, 10), (-5, 5)
FAR = [-(1 << 63), -1, 0, 5, 1 << 40, (1 << 63) - 1]


FEW_CACHED = {RocksDBOptions.TIMER_SERVICE_CACHE_SIZE.key: "3"}


@pytest.fixture
def harness(backend_name: str) -> BackendHarness:
    return BackendHarness(backend_name, settings=FEW_CACHED)


def queue_at(harness: BackendHarness, key: Any, schema: TimerSchema = PROCESSING) -> KeyGroupedPriorityQueue:
    return harness.at(key).get_priority_queue(schema)


def add(harness: BackendHarness, key: Any, time: int, namespace: Any = None, schema: TimerSchema = PROCESSING) -> None:
    queue = queue_at(harness, key, schema)
    queue.add(queue.timer(time, namespace))


def remove(harness: BackendHarness, key: Any, time: int, namespace: Any = None, schema: TimerSchema = PROCESSING) -> None:
    queue = queue_at(harness, key, schema)
    queue.remove(queue.timer(time, namespace))


def all_of(harness: BackendHarness, schema: TimerSchema = PROCESSING) -> list[tuple[int, Any, Any]]:
    return sorted(
        (
            (timer.timestamp, harness.codec.external(timer.key), timer.namespace)
            for backend in harness.backends
            for timer in backend.get_priority_queue(schema)
        ),
        key=repr,
    )


def polled(harness: BackendHarness, key_group: int | None = None) -> list[int]:
    found = []
    for backend in harness.backends:
        queue = backend.get_priority_queue(PROCESSING)
        while (timer := queue.poll(key_group)) is not None:
            found.append(timer.timestamp)
    return found


@pytest.mark.parametrize("flushed", [True, False])
def test_timers_come_in_the_order_of_their_times(harness: BackendHarness, flushed: bool) -> None:
    for number, time in enumerate([*FAR, *range(100, 120)]):
        add(harness, f"key {number * 7}", time)
    if flushed:
        harness.flush()
    assert polled(harness) == sorted([*FAR, *range(100, 120)])
    assert harness.backend.get_priority_queue(PROCESSING).is_empty()
    harness.flush()
    assert all_of(harness) == []
    assert harness.entry_count() == 0


def test_they_are_a_set_of_time_key_and_namespace(harness: BackendHarness) -> None:
    for _ in range(2):
        for key in ("a", "b"):
            for time in (1, 2):
                for window in (WINDOW, OTHER_WINDOW):
                    add(harness, key, time, window, EVENT)
        assert len(all_of(harness, EVENT)) == 8
        harness.flush()
    assert harness.entry_count() == 8
    remove(harness, "a", 1, WINDOW, EVENT)
    remove(harness, "a", 3, WINDOW, EVENT)
    assert len(all_of(harness, EVENT)) == 7
    assert (1, "a", WINDOW) not in all_of(harness, EVENT)
    harness.flush()
    assert harness.entry_count() == 7


def test_the_first_changes_with_what_is_added_and_removed(harness: BackendHarness) -> None:
    def first() -> int | None:
        timer = harness.backend.get_priority_queue(PROCESSING).peek()
        return None if timer is None else timer.timestamp

    assert first() is None
    add(harness, "a", 10)
    assert first() == 10
    add(harness, "b", 5)
    assert first() == 5
    harness.flush()
    add(harness, "c", 1)
    remove(harness, "b", 5)
    assert first() == 1
    remove(harness, "c", 1)
    assert first() == 10
    add(harness, "b", 5)
    assert first() == 5
    remove(harness, "b", 5)
    harness.flush()
    assert first() == 10
    remove(harness, "a", 10)
    assert first() is None
    harness.rollback()
    assert first() == 10


def test_a_rollback_brings_back_what_was_polled_and_drops_what_was_added(harness: BackendHarness) -> None:
    for time in range(20):
        add(harness, f"key {time}", time)
    harness.flush()
    for _ in range(3):
        add(harness, "new", -1)
        add(harness, "new", 7)
        assert len(polled(harness)) == 22
        harness.rollback()
        assert [time for time, _, _ in sorted(all_of(harness))] == list(range(20))
    assert polled(harness) == list(range(20))


def test_a_rollback_brings_back_what_was_moved_to_disk_as_removed(harness: BackendHarness) -> None:
    for time in range(5):
        add(harness, f"key {time}", time)
    harness.flush()
    assert polled(harness) == list(range(5))
    add(harness, "another", 50)  # a backend that spills does so now
    add(harness, "one more", 60)
    first = harness.backend.get_priority_queue(PROCESSING).peek()
    assert first is not None
    assert first.timestamp == 50
    harness.rollback()
    assert polled(harness) == list(range(5))


def test_what_is_polled_may_be_added_again(harness: BackendHarness) -> None:
    for time in range(5):
        add(harness, "k", time)
    harness.flush()
    queue = queue_at(harness, "k")
    again = [queue.poll() for _ in range(5)]
    for timer in again[1:3]:
        assert timer is not None
        queue.add(timer)
    assert [timer.timestamp for timer in queue.timers()] == [1, 2]
    harness.flush()
    assert polled(harness) == [1, 2]


def test_key_groups_are_asked_one_by_one(harness: BackendHarness) -> None:
    groups: dict[int, list[int]] = {}
    for time in range(40):
        key = f"key {time}"
        add(harness, key, time)
        groups.setdefault(harness.codec.key_group(key, MAX_PARALLELISM), []).append(time)
    harness.flush()
    queue = harness.backend.get_priority_queue(PROCESSING)
    for group, times in groups.items():
        first = queue.peek(group)
        assert first is not None
        assert (first.timestamp, first.key_group) == (times[0], group)
        assert [timer.timestamp for timer in queue.timers(group)] == times
    group, times = next(iter(groups.items()))
    assert polled(harness, group) == times
    assert queue.peek(99) is None
    assert polled(harness) == sorted(time for time in range(40) if time not in times)


@pytest.mark.parametrize("restored_by", state_backend_names())
def test_timers_move_with_the_key_group_of_their_key(backend_name: str, restored_by: str) -> None:
    harness = BackendHarness(backend_name, parallelism=2, settings=FEW_CACHED)
    for time in range(30):
        add(harness, f"key {time % 7}", time)
        add(harness, f"key {time % 7}", time % 3, (time, time + 1), EVENT)
    harness.flush()
    expected = all_of(harness), all_of(harness, EVENT)
    add(harness, "key 1", 1_000)  # runs on, and is in no snapshot
    files = harness.save()
    for parallelism in (1, 3):
        restored = harness.restored(files, parallelism, restored_by)
        undeclared = restored.restored(restored.save(), 2, backend_name)
        for found in (restored, undeclared):
            assert (all_of(found), all_of(found, EVENT)) == expected
            assert sum(len(list(backend.get_priority_queue(PROCESSING))) for backend in found.backends) == 30
            for backend in found.backends:
                assert all(timer.key_group in backend.key_group_range for timer in backend.get_priority_queue(EVENT))
        again = restored.restored(restored.save(), 2, backend_name)
        assert (all_of(again), all_of(again, EVENT)) == expected


def test_a_snapshot_says_what_they_are(harness: BackendHarness) -> None:
    add(harness, "k", 7, WINDOW, EVENT)
    add(harness, "k", -1)
    harness.flush()
    reader = CanonicalReader(io.BytesIO(harness.save()[0]))
    described = {info.name: (info.kind, info.timers, info.namespace) for info in reader.header.states}
    assert described == {
        "_timer_state/event_window-timers": (
            "TIMER",
            {"service": "window-timers", "domain": "EVENT_TIME"},
            {"version": 1, "format": "time-window"},
        ),
        "_timer_state/processing_user-timers": (
            "TIMER",
            {"service": "user-timers", "domain": "PROCESSING_TIME"},
            None,
        ),
    }
    (group,) = reader.key_groups()
    key = harness.codec.encode("k")
    assert list(reader.entries(PROCESSING.name, group)) == [(key, b"\x00" + time_to_bytes(-1), b"")]
    assert list(reader.entries(EVENT.name, group)) == [(key, TIME_WINDOWS.encode(WINDOW) + time_to_bytes(7), b"")]


def test_open_snapshots_stay_as_they_were(harness: BackendHarness) -> None:
    for time in range(10):
        add(harness, f"key {time}", time)
    harness.flush()
    (snapshot,) = harness.snapshot()
    assert polled(harness) == list(range(10))
    harness.flush()
    add(harness, "k", 50)
    harness.flush()
    sink = io.BytesIO()
    snapshot.write_canonical(sink)
    snapshot.release()
    assert [time for time, _, _ in sorted(all_of(harness.restored([sink.getvalue()])))] == list(range(10))
    assert polled(harness) == [50]


@pytest.mark.parametrize(
    "changed",
    [
        TimerSchema("window-timers", TimeDomain.EVENT_TIME),
        TimerSchema("window-timers", TimeDomain.EVENT_TIME, KeyNamespaceSerializer(Types.STRING())),
    ],
    ids=str,
)
def test_the_type_of_a_namespace_never_changes(harness: BackendHarness, changed: TimerSchema) -> None:
    add(harness, "k", 7, WINDOW, EVENT)
    with pytest.raises(StateDeclarationError, match="declared twice"):
        harness.backend.get_priority_queue(changed)
    harness.flush()
    restored = harness.restored(harness.save())
    with pytest.raises(RestoreError, match="The type of a namespace never changes") as raised:
        restored.backend.get_priority_queue(changed)
    assert raised.value.hint is not None
    assert all_of(restored, EVENT) == [(7, "k", WINDOW)]


def test_a_name_is_either_state_or_timers(harness: BackendHarness) -> None:
    add(harness, "k", 7)
    value = ValueStateDescriptor(PROCESSING.name, Types.LONG())
    with pytest.raises(StateDeclarationError, match="as a state and as timers"):
        harness.backend.get_partitioned_state(value)
    harness.flush()
    with_timers, with_value = harness.restored(harness.save()), BackendHarness(harness.backend_name)
    with pytest.raises(RestoreError, match="was written as TIMER of 'user-timers' by PROCESSING_TIME"):
        with_timers.use("k", value)
    with_value.use("k", value).update(1)
    with pytest.raises(StateDeclarationError, match="as a state and as timers"):
        with_value.backend.get_priority_queue(PROCESSING)
    with_value.flush()
    restored = with_value.restored(with_value.save())
    with pytest.raises(RestoreError, match="was written as VALUE"):
        restored.backend.get_priority_queue(PROCESSING)


@pytest.mark.parametrize("time", [1.0, True, None, 1 << 63, -(1 << 63) - 1])
def test_what_is_no_time_is_refused(harness: BackendHarness, time: Any) -> None:
    with pytest.raises(StateError, match="can't be the time of a timer"):
        queue_at(harness, "k").timer(time)


def test_a_timer_needs_a_key_of_the_subtask(harness: BackendHarness) -> None:
    with pytest.raises(StateError, match="no current key"):
        harness.backend.get_priority_queue(PROCESSING).timer(1)
    add(harness, "k", 1)
    harness.flush()
    with pytest.raises(StateError, match="no current key"):
        harness.backend.get_priority_queue(PROCESSING).timer(1)
    backends = BackendHarness(harness.backend_name, parallelism=2)
    backends.backends[0].set_current_key("k", 15)
    with pytest.raises(StateError, match="isn't one of this subtask's"):
        backends.backends[0].get_priority_queue(PROCESSING).timer(1)


def test_an_iteration_beyond_its_epoch_is_an_error(harness: BackendHarness) -> None:
    for time in range(8):
        add(harness, "k", time)
    harness.flush()
    timers = harness.backend.get_priority_queue(PROCESSING).timers()
    assert next(timers).timestamp == 0
    harness.flush()
    with pytest.raises(StateError, match="after its epoch had ended"):
        next(timers)


def test_an_iteration_shows_what_was_there_when_it_began(harness: BackendHarness) -> None:
    for time in range(6):
        add(harness, "k", time)
    queue = harness.backend.get_priority_queue(PROCESSING)
    seen = []
    for timer in queue:
        seen.append(timer.timestamp)
        queue.remove(timer)
        queue.add(timer._replace(timestamp=timer.timestamp + 100))
    assert seen == list(range(6))
    assert polled(harness) == list(range(100, 106))


def test_timers_that_come_and_go_take_no_room(harness: BackendHarness) -> None:
    add(harness, "k", 0)
    for time in range(1, 400):
        add(harness, "k", time)
        remove(harness, "k", time)
        if time % 10 == 0:
            harness.flush()
        add(harness, "k", time)
        if time % 10 == 0:
            harness.flush()
        remove(harness, "k", time)
    harness.flush()
    assert harness.entry_count() == 1
    queue: Any = harness.backend.get_priority_queue(PROCESSING)
    heaps = getattr(queue._store, "_heaps", {})
    assert sum(map(len, heaps.values())) < 100
    assert len(queue._heads) < 500


def test_timers_that_come_before_all_others_leave_nothing_behind(harness: BackendHarness) -> None:
    for time in range(600, 0, -1):
        add(harness, "k", time)
        add(harness, "l", time)
    queue: Any = harness.backend.get_priority_queue(PROCESSING)
    assert len(queue._heads) <= 4 * MAX_PARALLELISM
    assert [timer.timestamp for timer in iter(queue.poll, None)] == [time for time in range(1, 601) for _ in range(2)]


@pytest.mark.parametrize(
    ("sub_key", "value"),
    [(b"\x00", b""), (b"\x00" + b"1234567", b""), (time_to_bytes(1), b""), (b"\x00" + b"12345678", b"x")],
)
def test_a_damaged_timer_is_noticed(backend_name: str, sub_key: bytes, value: bytes) -> None:
    harness = BackendHarness(backend_name, settings=FEW_CACHED)
    info = PROCESSING.meta_info(PROCESSING.name)
    data = _file_with(harness, info, [("k", sub_key, value)])
    restored = None
    with pytest.raises(CorruptSnapshotError):
        restored = harness.restored([data])
        restored.backend.get_priority_queue(PROCESSING)


@pytest.mark.parametrize("timers", [{}, {"service": 1, "domain": "EVENT_TIME"}, {"service": "s", "domain": "NO_TIME"}])
def test_a_damaged_description_is_noticed(harness: BackendHarness, timers: dict[str, Any]) -> None:
    info = StateMetaInfoSnapshot(PROCESSING.name, "TIMER", {}, timers=timers)
    restored = harness.restored([_file_with(harness, info, [("k", b"\x00" + time_to_bytes(1), b"")])])
    with pytest.raises(CorruptSnapshotError, match="description of timers"):
        restored.backend.get_priority_queue(PROCESSING)


def _file_with(harness: BackendHarness, info: StateMetaInfoSnapshot, entries: list[tuple[Any, bytes, bytes]]) -> bytes:
    sink = io.BytesIO()
    writer = CanonicalWriter(
        sink, CanonicalHeader(None, KEY_ENCODING, MAX_PARALLELISM, harness.backend.key_group_range, (info,))
    )
    for key, sub_key, value in entries:
        group = harness.codec.key_group(key, MAX_PARALLELISM)
        writer.write(info.key, group, [(harness.codec.encode(key), sub_key, value)])
    writer.finish()
    return sink.getvalue()


def test_a_timer_is_a_tuple_of_time_key_and_namespace() -> None:
    assert Timer(1, "k", 3) == (1, "k", 3, None)

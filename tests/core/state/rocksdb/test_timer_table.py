"""How many timers are kept in memory, and read at a time: what the option says."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.common.errors import ConfigurationError
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.timer_schema import TimerSchema, time_from_bytes
from tests.core.state.conftest import BackendHarness

OPTION = RocksDBOptions.TIMER_SERVICE_CACHE_SIZE
TIMERS = 400


@pytest.mark.parametrize(("settings", "size"), [({}, 128), ({OPTION.key: "7"}, 7)])
def test_the_first_timers_of_a_key_group_are_in_memory(settings: dict[str, str], size: int) -> None:
    harness = BackendHarness("rocksdb", settings=settings)
    queue: Any = harness.at("k").get_priority_queue(TimerSchema("t", TimeDomain.EVENT_TIME))
    for time in range(TIMERS):
        queue.add(queue.timer(time))
    harness.flush()
    (cache,) = [cache for cache in _after_peek(queue) if cache.rows]
    assert len(cache.rows) == size
    for time in range(TIMERS):
        assert queue.poll().timestamp == time
        if time % 50 == 0:  # an epoch keeps what it has polled, until it ends
            harness.flush()
            assert len(cache.rows) <= size
    assert queue.is_empty()


def _after_peek(queue: Any) -> list[Any]:
    queue.peek()
    return list(queue._store._caches.values())


def test_at_least_one_timer_is_kept() -> None:
    with pytest.raises(ConfigurationError, match="is not allowed"):
        Configuration().set_string(OPTION.key, "0")


def _starts(queue: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that takes the times from which rows are read from now on."""
    scan = queue._store.scan_between
    starts: list[Any] = []

    def noted(start: bytes, end: bytes) -> Any:
        starts.append(time_from_bytes(start[2:10]) if len(start) > 2 else None)
        return scan(start, end)

    monkeypatch.setattr(type(queue._store), "scan_between", lambda _, start, end: noted(start, end))
    return starts


@pytest.mark.parametrize("spills", [False, True])
def test_what_was_fired_or_deleted_is_not_walked_over_again(monkeypatch: pytest.MonkeyPatch, spills: bool) -> None:
    settings = {OPTION.key: "8", PystateOptions.STATE_EPOCH_MEMORY.key: "1 b" if spills else "1 gb"}
    harness = BackendHarness("rocksdb", settings=settings)
    queue: Any = harness.at("k").get_priority_queue(TimerSchema("t", TimeDomain.EVENT_TIME))
    for time in range(TIMERS):
        queue.add(queue.timer(time))
    harness.flush()
    for time in range(100):
        assert queue.poll().timestamp == time
        if time % 10 == 0:
            harness.backend.limit_epoch(1, 1)
    assert harness.backend.has_spilled is spills  # type: ignore[attr-defined]
    harness.flush()
    harness.at("k")
    for time in range(100, 200):
        queue.remove(queue.timer(time))
    harness.backend.limit_epoch(1, 1)
    harness.flush()
    starts = _starts(queue, monkeypatch)
    for time in range(200, 300):
        assert queue.poll().timestamp == time
        harness.flush()
    assert starts
    assert all(start is not None and start >= 100 for start in starts), "a key group was read from its front again"


def test_timers_that_an_epoch_on_disk_removed_are_back_when_it_is_rolled_back() -> None:
    harness = BackendHarness("rocksdb", settings={OPTION.key: "8", PystateOptions.STATE_EPOCH_MEMORY.key: "1 b"})
    queue: Any = harness.at("k").get_priority_queue(TimerSchema("t", TimeDomain.EVENT_TIME))
    for time in range(40):
        queue.add(queue.timer(time))
    harness.flush()
    for ended in (harness.rollback, harness.flush, harness.rollback):
        first = queue.peek().timestamp
        for time in range(first, first + 10):
            assert queue.poll().timestamp == time
            harness.backend.limit_epoch(1, 1)
        ended()
        assert queue.peek().timestamp == (first + 10 if ended == harness.flush else first)

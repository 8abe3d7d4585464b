"""How many timers are kept in memory, and read at a time: what the option says."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.api.time_domain import TimeDomain
from pystate.common.configuration import Configuration
from pystate.common.errors import ConfigurationError
from pystate.common.rocksdb_options import RocksDBOptions
from pystate.state.base.timer_schema import TimerSchema
from tests.state.conftest import BackendHarness

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

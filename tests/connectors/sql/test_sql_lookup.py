"""Look-ups for each element, with a cache."""

from __future__ import annotations

import pytest

from pystate.common import Time
from pystate.common.errors import PystateError
from pystate.common.row import Row
from pystate.common.time import Duration
from pystate.connectors.lookup import CacheSettings, LookupCache
from pystate.connectors.sql import AsyncSqlLookup, SqlConnectionOptions, SqlLookup
from pystate.core.api.async_retry import NO_RETRY_STRATEGY
from pystate.datastream.functions import AsyncFunctionDescriptor
from pystate.testing import OneInputOperatorTestHarness
from tests.connectors.sql.databases import execute, make_table


def by_word(url, table, **settings):
    query = f"SELECT word, number FROM {table} WHERE word = ? ORDER BY number"
    return SqlConnectionOptions(url), query, lambda element: (element,), lambda element, rows: (element, rows), settings


def numbers(results):
    return [(word, [row.number for row in rows]) for word, rows in results]


def test_rows_are_found_and_the_cache_answers_for_as_long_as_it_may(url, table):
    make_table(url, table)
    execute(url, f"INSERT INTO {table} VALUES ('a', 1), ('a', 2), ('b', 3)")
    *arguments, settings = by_word(url, table, max_rows=2)
    with OneInputOperatorTestHarness(SqlLookup(*arguments, **settings)) as harness:
        harness.open()
        harness.process_elements(["a", "b", "c"])
        execute(url, f"DELETE FROM {table}", f"INSERT INTO {table} VALUES ('c', 9)")
        harness.process_elements(["c", "b", "a", "b"])
        results = harness.extract_output()
        assert numbers(results) == [("a", [1, 2]), ("b", [3]), ("c", []), ("c", []), ("b", [3]), ("a", []), ("b", [3])]
        assert results[0][1][0] == Row(word="a", number=1)
        metrics = harness.get_metrics()
        assert (metrics["lookupCacheHits"], metrics["lookupCacheMisses"]) == (3, 4)


def test_several_look_ups_are_under_way_at_once(url, table):
    make_table(url, table)
    execute(url, f"INSERT INTO {table} VALUES ('a', 1), ('b', 3)")
    *arguments, settings = by_word(url, table, connections=3)
    lookup, mode = AsyncSqlLookup(*arguments, **settings), AsyncFunctionDescriptor.OutputMode.ORDERED
    step = AsyncFunctionDescriptor(lookup, Time.seconds(30), 10, NO_RETRY_STRATEGY, mode)
    with OneInputOperatorTestHarness(step) as harness:
        harness.open()
        harness.process_elements(["a", "b", "c"] * 5)
        harness.end_epoch()
        assert numbers(harness.extract_output()) == [("a", [1]), ("b", [3]), ("c", [])] * 5


def test_a_look_up_that_is_refused_fails_the_task(url, table):
    *arguments, settings = by_word(url, table)
    with OneInputOperatorTestHarness(SqlLookup(*arguments, **settings)) as harness:
        harness.open()
        with pytest.raises(PystateError, match="A look-up failed"):
            harness.process_elements(["a"])


def test_a_cache_forgets_what_is_old_and_what_was_not_asked_for():
    now = [0.0]
    cache = LookupCache(CacheSettings(2, Duration.of_seconds(10), cache_missing_key=False), clock=lambda: now[0])
    cache.put("a", [Row(1)])
    cache.put("b", [Row(2)])
    assert cache.get("a") == [Row(1)]
    cache.put("c", [Row(3)])
    assert cache.get("b") is None
    cache.put("d", [])
    assert cache.get("d") is None
    now[0] = 10.0
    assert cache.get("a") is None
    assert len(cache) == 1
    nothing = LookupCache(CacheSettings())
    nothing.put("a", [Row(1)])
    assert nothing.get("a") is None

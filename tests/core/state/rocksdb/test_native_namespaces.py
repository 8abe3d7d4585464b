"""Namespaces and timers in RocksDB's own files: rows move with the key group of their key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import RestoreError
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.keys.namespaces import TIME_WINDOWS, KeyNamespaceSerializer
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from tests.core.state.rocksdb.native import Operator

COUNT = ValueStateDescriptor("count", Types.LONG())
WORDS = ListStateDescriptor("words", Types.STRING())
ENTRIES = MapStateDescriptor("entries", Types.STRING(), Types.LONG())
TEXTS = KeyNamespaceSerializer(Types.STRING())
TIMERS = TimerSchema("t", TimeDomain.EVENT_TIME, TIME_WINDOWS)
KEYS = [f"key {number}" for number in range(20)]
WINDOWS = [(0, 10), (5, 15)]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def at(operator: Operator, key: str) -> RocksDBKeyedStateBackend:
    internal = operator.codec.internal(key)
    group = operator.codec.key_group(internal, 16)
    (backend,) = (one for one in operator.backends if group in one.key_group_range)
    backend.set_current_key(internal, group)
    return backend


def states(operator: Operator, key: str) -> Iterator[tuple[Any, Any, Any, Any, tuple[int, int]]]:
    """Yield the states of a key in each window, the timers of its subtask, and the window."""
    backend = at(operator, key)
    queue = backend.get_priority_queue(TIMERS)
    for window in WINDOWS:
        handles = [
            backend.get_or_create_keyed_state(COUNT, TIME_WINDOWS),
            backend.get_or_create_keyed_state(WORDS, TEXTS),
            backend.get_or_create_keyed_state(ENTRIES, TIME_WINDOWS),
        ]
        for handle in handles:
            handle.set_current_namespace(str(window) if handle.namespaces == TEXTS else window)
        count, words, entries = (handle.state for handle in handles)
        yield count, words, entries, queue, window


def write(operator: Operator, keys: list[str], number: int) -> None:
    for key in keys:
        for count, words, entries, queue, window in states(operator, key):
            count.update(number)
            words.add(f"{key} {number}")
            entries.put(f"m{number}", number)
            queue.add(queue.timer(number * 100 + window[1], window))
    operator.flush()


def contents(operator: Operator) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key in KEYS:
        for count, words, entries, _, window in states(operator, key):
            found[key, window] = count.value(), words.get(), dict(entries.items())
    for backend in operator.backends:
        for timer in backend.get_priority_queue(TIMERS):
            found.setdefault((timer.key, timer.namespace, "timers"), []).append(timer.timestamp)
    operator.flush()
    return found


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_they_are_restored_to_their_moment_at_any_parallelism(root: str, parallelism: int) -> None:
    operator = Operator(root, 2)
    write(operator, KEYS, 1)
    operator.checkpoint(1)
    write(operator, KEYS[::2], 2)
    handles = operator.checkpoint(2)
    expected = contents(operator)
    write(operator, KEYS, 3)
    restored = Operator(root, parallelism, handles)
    assert contents(restored) == expected
    write(restored, KEYS[:5], 4)
    expected = contents(restored)
    assert contents(Operator(root, 2, restored.checkpoint(3))) == expected


def test_what_nobody_declares_goes_on(root: str) -> None:
    operator = Operator(root, 2)
    write(operator, KEYS, 1)
    expected = contents(operator)
    one = Operator(root, 1, operator.checkpoint(1))
    three = Operator(root, 3, one.checkpoint(2))
    assert contents(three) == expected


def test_keys_of_another_type_are_looked_at_in_rows_of_timers_too(root: str) -> None:
    operator = Operator(root, 2)
    write(operator, KEYS, 1)
    handles = operator.checkpoint(1)
    expected = contents(operator)
    assert contents(Operator(root, 1, handles, key_type=Types.STRING())) == expected
    with pytest.raises(RestoreError, match="type of a key can't change|doesn't fit the key type"):
        Operator(root, 1, handles, key_type=Types.LONG())


def test_the_type_of_a_namespace_never_changes(root: str) -> None:
    operator = Operator(root, 1)
    write(operator, KEYS, 1)
    restored = Operator(root, 1, operator.checkpoint(1))
    with pytest.raises(RestoreError, match="The type of a namespace never changes"):
        at(restored, "key 1").get_or_create_keyed_state(COUNT, TEXTS)

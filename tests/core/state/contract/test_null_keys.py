"""None as a key, and as the key of a map's entry: on every backend, in snapshots, when rescaled."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import TypeInformation, Types
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor
from tests.core.state.conftest import BackendHarness

KEYS: list[tuple[TypeInformation | None, Any]] = [
    (None, "a"),
    (Types.STRING(), ""),
    (Types.LONG(), 0),
    (Types.BOOLEAN(), False),
    (Types.DOUBLE(), 0.0),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00"),
    (Types.TUPLE([Types.STRING()]), (None,)),
]
ENTRIES = MapStateDescriptor("entries", Types.STRING(), Types.INT())
ELEMENTS = ListStateDescriptor("elements", Types.INT())


@pytest.mark.parametrize(("key_type", "other"), KEYS, ids=repr)
def test_none_is_a_key_beside_others(backend_name: str, key_type: TypeInformation | None, other: Any) -> None:
    harness = BackendHarness(backend_name, key_type, parallelism=2)
    for value, key in enumerate((None, other, None)):
        harness.state(key, type_info=Types.INT()).update(value)
        harness.use(key, ELEMENTS).add(value)
        harness.use(key, ENTRIES).put(None, value)
        harness.flush()
    files = harness.save()
    for restored in (harness, harness.restored(files, 1), harness.restored(files, 3, "hashmap")):
        found = {}
        for key in (None, other):
            value = restored.state(key, type_info=Types.INT()).value()
            found[key] = value, list(restored.use(key, ELEMENTS).get()), dict(restored.use(key, ENTRIES).items())
        assert found == {None: (2, [0, 2], {None: 2}), other: (1, [1], {None: 1})}
        assert restored.at(None).key_context.current_key is None
        restored.state(None, type_info=Types.INT()).clear()
        restored.flush()
        assert restored.state(None, type_info=Types.INT()).value() is None


@pytest.mark.parametrize("key_type", [None, Types.STRING(), Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())], ids=repr)
def test_none_is_a_key_of_a_map(harness: BackendHarness, key_type: TypeInformation | None) -> None:
    entries = MapStateDescriptor("m", key_type, Types.INT())
    state = harness.use("k", entries)
    assert (state.get(None), state.contains(None)) == (None, False)
    state.put(None, 1)
    assert (state.get(None), state.contains(None), list(state.keys()), state.is_empty()) == (1, True, [None], False)
    harness.flush()
    state = harness.use("k", entries)
    assert list(state.items()) == [(None, 1)]
    state.remove(None)
    harness.flush()
    assert harness.use("k", entries).is_empty()


def test_entries_are_put_from_a_dict_and_from_pairs(harness: BackendHarness) -> None:
    state = harness.use("k", ENTRIES)
    state.put_all({"a": 1})
    state.put_all({"b": 2, "c": None}.items())
    state.put_all([("d", 4)])
    assert dict(state.items()) == {"a": 1, "b": 2, "c": None, "d": 4}


def test_an_entry_of_none_is_contained_as_keys_say(harness: BackendHarness) -> None:
    harness.use("k", ENTRIES).put("a", None)
    for _ in range(2):
        state = harness.use("k", ENTRIES)
        assert (state.contains("a"), state.get("a"), list(state.keys()), state.is_empty()) == (True, None, ["a"], False)
        harness.flush()

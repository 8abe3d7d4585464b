"""A bounded dict keeps the latest entries, and none that has expired."""

from __future__ import annotations

from pystate.common.bounded_dict import BoundedDict


def test_the_oldest_make_room_and_are_named() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    assert [kept.put(key, number) for number, key in enumerate("abac")] == [[], [], [], ["b"]]
    assert list(kept.items()) == [("a", 2), ("c", 3)]
    assert (kept.get("b"), "b" in kept, "a" in kept, len(kept)) == (None, False, True, 2)


def test_without_room_nothing_is_kept() -> None:
    kept: BoundedDict[str, int] = BoundedDict(0)
    assert kept.put("a", 1) == ["a"]
    assert kept.get("a") is None


def test_only_what_is_renewed_gets_newer() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    assert kept.get("b", renew=True) == 2
    kept.replace("a", 3)
    kept.replace("unknown", 4)
    assert kept.put("c", 5) == ["a"]
    assert list(kept.items()) == [("b", 2), ("c", 5)]


def test_entries_expire_however_often_they_are_asked_for() -> None:
    now = [0.0]
    kept: BoundedDict[str, int] = BoundedDict(9, 10.0, lambda: now[0])
    kept.put("a", 1)
    now[0] = 9.0
    assert kept.get("a", renew=True) == 1
    kept.put("b", 2)
    now[0] = 10.0
    assert (kept.get("a"), kept.get("b"), len(kept)) == (None, 2, 1)


def test_an_entry_is_removed() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept.put("a", 1)
    assert (kept.pop("a"), kept.pop("a"), len(kept)) == (1, None, 0)

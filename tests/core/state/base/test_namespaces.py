"""How namespaces are held and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.core.state.keys.namespaces import (
    TIME_WINDOWS,
    VOID,
    VOID_NAMESPACE,
    KeyNamespaceSerializer,
    namespaces_from_snapshot,
    split_namespace,
    write_varint,
)

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = KeyNamespaceSerializer(Types.STRING())


@given(st.tuples(LONGS, LONGS), st.binary(max_size=5))
def test_a_window_comes_back_with_what_follows_it(window, rest):
    sub_key = TIME_WINDOWS.encode(TIME_WINDOWS.internal(window)) + rest
    data, end = split_namespace(sub_key)
    assert TIME_WINDOWS.external(TIME_WINDOWS.decode(data)) == window
    assert (len(sub_key), sub_key[end:]) == (17 + len(rest), rest)


@given(st.lists(st.tuples(LONGS, LONGS), min_size=2, max_size=2))
def test_the_bytes_of_windows_are_ordered_as_windows_are(windows):
    assert sorted(windows) == sorted(windows, key=TIME_WINDOWS.encode)


@given(st.text(max_size=300), st.text(max_size=300), st.binary(max_size=3), st.binary(max_size=3))
def test_no_namespace_is_the_beginning_of_another(first, second, rest, other_rest):
    one, other = TEXTS.encode(first) + rest, TEXTS.encode(second) + other_rest
    assert TEXTS.decode(split_namespace(one)[0]) == first
    assert (TEXTS.encode(second) == one[: len(TEXTS.encode(second))]) == (first == second)
    assert (one == other) == (first == second and rest == other_rest)


@given(st.integers(0, (1 << 31) - 1))
def test_lengths_are_varints(number):
    written = write_varint(number)
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(written)) == number
    assert [byte > 0x7F for byte in written] == [True] * (len(written) - 1) + [False]


def test_void_is_one_byte():
    assert VOID.encode(VOID.internal(None)) == VOID_NAMESPACE == b"\x00"
    assert split_namespace(b"\x00rest") == (b"", 1)
    assert VOID.external(VOID.decode(b"")) is None
    with pytest.raises(StateError, match="'w' is no namespace of type void"):
        VOID.internal("w")


@pytest.mark.parametrize("namespaces", [VOID, TIME_WINDOWS, TEXTS, KeyNamespaceSerializer(None)], ids=str)
def test_a_description_says_how_they_are_written(namespaces):
    assert namespaces_from_snapshot(namespaces.snapshot(), "s") == namespaces


def test_the_types_are_told_apart():
    different = [VOID, TIME_WINDOWS, TEXTS, KeyNamespaceSerializer(None), KeyNamespaceSerializer(Types.LONG())]
    assert all(one != other for one in different for other in different if one is not other)


@pytest.mark.parametrize("namespace", ["no pair", (1,), (1, 2, 3), (1, 2.0), (True, 2), (1 << 63, 2), None])
def test_what_is_no_window_is_refused(namespace):
    with pytest.raises(StateError, match="is no namespace of type time window"):
        TIME_WINDOWS.internal(namespace)


def test_what_is_of_another_type_is_refused():
    with pytest.raises(StateError, match="7 is no namespace of type STRING"):
        TEXTS.internal(7)


@pytest.mark.parametrize("sub_key", [b"", b"\x05abcd", b"\x80", b"\x80\x00", b"\xff\xff\xff\xff\xff\x01", b"\xff"])
def test_a_damaged_namespace_is_noticed(sub_key):
    with pytest.raises(CorruptSnapshotError, match="namespace of an entry is damaged"):
        split_namespace(sub_key)


@pytest.mark.parametrize("data", [b"", b"x" * 15, b"x" * 17])
def test_a_damaged_window_is_noticed(data):
    with pytest.raises(CorruptSnapshotError, match=f"has {len(data)} bytes"):
        TIME_WINDOWS.decode(data)


@pytest.mark.parametrize(
    "snapshot", [7, {}, {"version": "1"}, {"version": 1, "format": "pystate-key-1", "type": {"type": 7}}]
)
def test_a_damaged_description_is_noticed(snapshot):
    with pytest.raises(CorruptSnapshotError, match="namespaces of state 's' is damaged"):
        namespaces_from_snapshot(snapshot, "s")


@pytest.mark.parametrize("snapshot", [{"version": 2, "format": "time-window"}, {"version": 1, "format": "count-window"}])
def test_a_newer_description_is_named(snapshot):
    with pytest.raises(RestoreError, match=f"written as '{snapshot['format']}', version {snapshot['version']}"):
        namespaces_from_snapshot(snapshot, "s")

"""What readers, comparisons and writers of snapshots make of namespaces and timers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.reading.snapshot_table import select_state, state_table
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.keys.keys import KeyCodec
from pystate.ops.catalog.difference import Change, SnapshotState, key_changes
from pystate.state_processor.entry_frames import _in_order
from pystate.state_processor.frame_columns import batches_of, keyed_columns, schema_of
from tests.fixtures import all_kinds, windows

KEYS = ["ant", "bee", "cow"]


def savepoint(folder: Path, keys: list[str] = KEYS, backend: str = "hashmap") -> str:
    return all_kinds.write_savepoint(folder, [windows.windows_operator(keys, backend)])


@pytest.fixture
def reader(tmp_path: Path) -> SnapshotReader:
    return SnapshotReader(savepoint(tmp_path / "savepoint"))


@pytest.fixture
def uid() -> str:
    return windows.UID


def test_rows_tell_the_namespace(reader: SnapshotReader, uid: str) -> None:
    found = {(row.key, row.namespace): row.value for row in reader.keyed_rows(uid, "count")}
    expected = windows.expected(KEYS)[0]
    assert found == {(key, space): value for (name, key, space), value in expected.items() if name == "count"}
    assert {row.namespace for row in reader.keyed_rows(uid, "per text", keys=["bee"])} == set(windows.NAMES)
    assert {row.namespace for row in reader.keyed_rows(uid, "plain")} == {None}


def test_entries_are_of_key_and_namespace(reader: SnapshotReader, uid: str) -> None:
    expected = windows.expected(KEYS)[0]
    for name in ("count", "elements", "ttl list"):
        found = dict(reader.keyed_entries(uid, name))
        assert found == {(key, space): value for (state, key, space), value in expected.items() if state == name}
    assert dict(reader.keyed_entries(uid, "plain")) == {"ant": 0, "bee": 1, "cow": 2}
    entries: dict[Any, dict[str, int]] = {}
    for address, (map_key, value) in reader.keyed_entries(uid, "per text"):
        entries.setdefault(address, {})[map_key] = value
    assert entries == {(key, space): value for (state, key, space), value in expected.items() if state == "per text"}


def test_the_index_of_a_list_begins_anew_in_each_namespace(reader: SnapshotReader, uid: str) -> None:
    rows = [(row.namespace, row.sub_key) for row in reader.keyed_rows(uid, "elements", keys=["cow"])]
    assert rows == [(window, index) for place, window in enumerate(windows.WINDOWS) for index in range(place + 1)]


def test_timers_are_rows_whose_value_is_their_time(reader: SnapshotReader, uid: str) -> None:
    found = [(row.value, row.key, row.namespace) for row in reader.keyed_rows(uid, windows.EVENT_TIMERS.name)]
    expected = [timer[1:] for timer in windows.expected(KEYS)[1] if timer[0] == "window-timers"]
    assert sorted(found) == sorted(expected)
    assert sorted(reader.keyed_entries(uid, windows.PROCESSING_TIMERS.name)) == [("ant", -3), ("bee", -2), ("cow", -1)]


def test_a_table_shows_the_namespace(reader: SnapshotReader, uid: str) -> None:
    table = state_table(select_state(reader, uid, "per text", "bee"))
    assert table.columns == ("key", "key_group", "namespace", "map_key", "value")
    rows = {(key, namespace, map_key): value for key, _, namespace, map_key, value in table.rows}
    assert rows["bee", "a", "m1"] == 2
    timers = state_table(select_state(reader, uid, windows.PROCESSING_TIMERS.name, "cow"))
    assert (timers.columns, [row[2] for row in timers.rows]) == (("key", "key_group", "value"), [-1])


@pytest.mark.parametrize("name", ["count", "elements", "per text", "item", windows.EVENT_TIMERS.name])
def test_columns_have_the_namespace(reader: SnapshotReader, uid: str, name: str) -> None:
    selection: Any = select_state(reader, uid, name)
    columns = keyed_columns(selection.decoder, per_entry=True)
    (batch,) = batches_of(columns, selection.rows, "here")
    assert batch.schema == schema_of(columns)
    found = {repr(space) for space in batch.column(batch.schema.names.index("namespace")).to_pylist()}
    if name in ("per text", "item"):
        assert found == {repr(space) for space in windows.NAMES}
    else:
        assert found == {repr({"start": start, "end": end}) for start, end in windows.WINDOWS}


def differences(before: str, after: str, name: str) -> set[tuple[Change, Any]]:
    sides = []
    for path in (before, after):
        location = SnapshotLocation(path)
        sides.append(SnapshotState(location, read_metadata(location.read_metadata(), path), windows.UID, name))
    return set(key_changes(*sides))


@pytest.mark.parametrize("name", ["count", "elements", "per text", windows.EVENT_TIMERS.name])
def test_what_differs_is_told_key_by_key(tmp_path: Path, name: str) -> None:
    before = savepoint(tmp_path / "before")
    assert differences(before, savepoint(tmp_path / "again", backend="rocksdb"), name) == set()
    fewer = savepoint(tmp_path / "fewer", ["ant", "bee"])
    assert differences(before, fewer, name) == {(Change.REMOVED, "cow")}


def test_lists_that_moved_to_another_namespace_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = savepoint(tmp_path / "before")
    monkeypatch.setattr(windows, "WINDOWS", [*windows.WINDOWS[:2], (1, 2)])
    after = savepoint(tmp_path / "after")
    changed = {(Change.CHANGED, key) for key in KEYS}
    assert differences(before, after, "elements") == changed
    assert differences(before, after, windows.EVENT_TIMERS.name) == changed
    assert differences(before, after, "plain") == set()


def test_lists_of_two_namespaces_stay_two_when_they_are_written_anew(reader: SnapshotReader, uid: str) -> None:
    (info,) = reader.keyed_state(uid, "elements").parts
    entries = []
    for handle in (one for state in reader.operator(uid).subtasks.values() for one in state.keyed_state):
        from pystate.core.snapshot.reading.keyed_files import open_keyed_state

        with open_keyed_state(reader.location, reader.operator(uid), handle) as file:
            entries += [entry for group in file.key_groups() for entry in file.entries(info, group)]
    assert list(_in_order(info, KeyCodec(reader.keyed_state(uid, "elements").key_type), entries)) == entries
    assert len(entries) == 9

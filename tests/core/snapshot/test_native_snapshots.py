"""Native savepoints without slots: self-contained, movable, read offline, refused where they don't fit."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, PystateError
from pystate.common.type_info import Types
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.metadata_file import read_metadata, write_metadata
from pystate.core.snapshot.reading import keyed_files
from pystate.core.snapshot.reading.inspection import inspect_operators
from pystate.core.snapshot.reading.snapshot_reader import KeyFilter, SnapshotReader
from pystate.core.snapshot.reading.snapshot_table import select_state, state_table
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.garbage import named_files
from pystate.ops.catalog.verification import Verification
from pystate.state_processor.splits import keyed_splits
from tests.fixtures.restoring import restored_all_kinds

SNAPSHOTS = Path(__file__).parents[2] / "fixtures" / "snapshots" / "v0.1.0"
WORDS = ["ant", "bee", "cow", "dög", "elk", "fox", "gnu", "hen"]


@pytest.fixture
def native(tmp_path):
    return Path(shutil.copytree(SNAPSHOTS / "native-rocksdb", tmp_path / "moved" / "elsewhere"))


def metadata_of(path: Path):
    location = SnapshotLocation(str(path))
    return location, read_metadata(location.read_metadata(), location.uri)


def handles_of(metadata) -> list[IncrementalKeyedStateHandle]:
    states = (state for operator in metadata.operators for state in operator.subtasks.values())
    return [handle for state in states for handle in state.keyed_state if isinstance(handle, IncrementalKeyedStateHandle)]


def problems(path: Path) -> list[str]:
    location, metadata = metadata_of(path)
    return [problem.what for problem in Verification(location, metadata).problems()]


def test_all_files_of_a_native_savepoint_are_its_own(native):
    location, metadata = metadata_of(native)
    handles = handles_of(metadata)
    assert len(handles) == 2
    for handle in handles:
        assert handle.shared == {}
        assert any(name.endswith(".sst") for name in handle.private)
        assert handle.checkpointed_size == handle.state_size
    assert named_files(metadata, location.uri) == {
        f"{location.uri}/{name}" for name in os.listdir(native) if name != "_metadata"
    }


def test_a_moved_one_is_read_offline_with_the_same_content_as_a_canonical_one(native):
    ours, canonical = SnapshotReader(str(native)), SnapshotReader(str(SNAPSHOTS / "canonical-rocksdb"))
    states = [state.name for state in canonical.keyed_states("typed")]
    assert [state.name for state in ours.keyed_states("typed")] == states
    for name in states:
        assert list(ours.keyed_rows("typed", name)) == list(canonical.keyed_rows("typed", name))
    one = [row.value for row in ours.keyed_rows("typed", "reducing", keys=["dög"])]
    assert one == [row.value for row in canonical.keyed_rows("typed", "reducing", keys=["dög"])] != []


READS = {
    "rows": lambda reader: list(reader.keyed_rows("typed", "reducing")),
    "entries": lambda reader: list(reader.keyed_entries("typed", "list")),
    "a table": lambda reader: list(state_table(select_state(reader, "typed", "map")).rows),
    "a count": lambda reader: reader.keyed_states("typed"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_each_subtask_is_converted_once(native, monkeypatch, read):
    converted = []
    create = keyed_files.create_state_backend
    monkeypatch.setattr(
        keyed_files, "create_state_backend", lambda *args, **named: converted.append(1) or create(*args, **named)
    )
    assert read(SnapshotReader(str(native)))
    assert len(converted) == len(handles_of(metadata_of(native)[1])) == 2


def test_only_the_tasks_of_spark_convert(native, monkeypatch):
    def refuse(*_, **__):
        pytest.fail("converted where reading is only planned")

    monkeypatch.setattr(keyed_files, "create_state_backend", refuse)
    reader = SnapshotReader(str(native))
    operator = reader.operator("typed")
    assert reader.keyed_state("typed", "map").kind == "MAP"
    splits = keyed_splits(reader, operator, ["map"], None, 1)
    assert [len(split.key_groups) for split in splits] == [len(one.key_group_range) for one in handles_of(reader.metadata)]
    wanted = KeyFilter.of(["dög"], Types.STRING(), operator.max_parallelism)
    (split,) = keyed_splits(reader, operator, None, wanted, 1)
    assert split.key_groups == tuple(wanted.by_group)


def test_a_moved_one_restores_at_another_parallelism(native):
    found, functions = restored_all_kinds(str(native), "typed", WORDS, Types.STRING(), 3, "rocksdb")
    assert sorted(key for key, _ in found) == sorted(WORDS)
    assert len(functions) == 3


def test_inspect_shows_states_and_verify_reads_every_byte(native):
    location, metadata = metadata_of(native)
    assert {state.kind for state in inspect_operators(location, metadata)[0].states} >= {"VALUE", "LIST", "MAP"}
    assert problems(native) == []


@pytest.mark.parametrize("kind", [".sst", "MANIFEST", "CURRENT", "OPTIONS", "meta", "operator", "raw-keyed"])
@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "swapped"])
def test_damage_of_each_kind_of_file_is_found_and_never_restored(native, kind, damage):
    first = next(
        name
        for name in sorted(os.listdir(native))
        if f"typed-0-{kind}" in name or f"keyed-{kind}" in name or (kind == ".sst" and ".sst-" in name)
    )
    path = native / first
    data = path.read_bytes()
    if damage == "flip":
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    elif damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "missing":
        path.unlink()
    else:
        other = next(name for name in sorted(os.listdir(native), reverse=True) if name != first and name != "_metadata")
        path.write_bytes((native / other).read_bytes())
    found = problems(native)
    assert len(found) == 1
    assert first in found[0]
    with pytest.raises(PystateError) as refused:
        restored_all_kinds(str(native), "typed", WORDS, Types.STRING(), 1, "rocksdb")
    assert first in str(refused.value)
    if kind != "operator" and kind != "raw-keyed":
        with pytest.raises(PystateError):
            list(SnapshotReader(str(native)).keyed_rows("typed", "value"))


def test_native_files_that_are_whole_but_anothers_are_refused(native):
    location, metadata = metadata_of(native)
    operator = metadata.operators[0]
    first, second = (operator.subtasks[index].keyed_state[0] for index in (0, 1))
    crossed = replace(first, private={**first.private, **second.private}, meta=second.meta)
    subtasks = {**operator.subtasks, 0: replace(operator.subtasks[0], keyed_state=[crossed])}
    (native / "_metadata").unlink()
    location.write_metadata(write_metadata(replace(metadata, operators=[replace(operator, subtasks=subtasks)])))
    assert any("key groups" in what for what in problems(native))
    with pytest.raises(PystateError):
        restored_all_kinds(str(native), "typed", WORDS, Types.STRING(), 1, "rocksdb")
    with pytest.raises(PystateError):
        list(SnapshotReader(str(native)).keyed_rows("typed", "value"))


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", ".hidden", "/etc/passwd", "a\\b", "x" * 300])
def test_names_of_native_files_cannot_lead_anywhere(native, name):
    _, metadata = metadata_of(native)
    operator = metadata.operators[0]
    handle = operator.subtasks[0].keyed_state[0]
    escaped = replace(handle, private={**handle.private, name: handle.private["CURRENT"]})
    subtasks = {**operator.subtasks, 0: replace(operator.subtasks[0], keyed_state=[escaped])}
    changed = replace(metadata, operators=[replace(operator, subtasks=subtasks)])
    with pytest.raises(CorruptSnapshotError, match="has the name"):
        CheckpointMetadata.from_plain(changed.to_plain())

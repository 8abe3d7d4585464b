"""Handles of incremental keyed state."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle, SharedFile
from pystate.core.snapshot.metadata_file import read_metadata, write_metadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState


def shared(name: str, size: int = 1000, directory: str = "file:/c/job/shared") -> SharedFile:
    return SharedFile(f"backend/{name}", FileStateHandle(f"{directory}/job-1-{name}", size, 7))


def handle(**changes: Any) -> IncrementalKeyedStateHandle:
    values: dict[str, Any] = {
        "start_key_group": 0,
        "end_key_group": 63,
        "format": "rocksdb",
        "backend_id": "backend",
        "shared": {"000012.sst": shared("000012.sst"), "000013.sst": shared("000013.sst", 200)},
        "private": {
            "CURRENT": ByteStreamStateHandle(b"MANIFEST-000005\n"),
            "MANIFEST-000005": FileStateHandle("m-1", 40, 1),
        },
        "meta": ByteStreamStateHandle(b"meta"),
        "checkpointed_size": 260,
    }
    return IncrementalKeyedStateHandle(**(values | changes))


def test_sizes_tell_what_there_is_from_what_was_written():
    assert (handle().state_size, handle().checkpointed_size) == (1260, 260)
    subtask = OperatorSubtaskState([handle()])
    assert (subtask.state_size, subtask.checkpointed_size, subtask.has_state) == (1260, 260, True)


def test_it_stands_in_metadata_and_comes_back(make_metadata):
    operator = OperatorState("count", "Count", 1, 64, None, "pystate-1", {0: OperatorSubtaskState([handle()])})
    metadata = make_metadata(operators=[operator])
    read = read_metadata(write_metadata(metadata), "here")
    assert read == metadata
    assert [file.key for file in read.shared_files] == ["backend/000012.sst", "backend/000013.sst"]


def test_metadata_gets_other_handles_in_one_place_only(make_metadata, make_operator):
    operator = OperatorState("count", "Count", 1, 64, None, "pystate-1", {0: OperatorSubtaskState([handle()])})
    metadata = make_metadata(operators=[make_operator("other", "Other", 2), operator])
    moved = shared("elsewhere")
    changed = metadata.map_keyed_state(
        lambda one: one.with_shared(lambda _: moved) if isinstance(one, IncrementalKeyedStateHandle) else one
    )
    assert changed.operators[0] == metadata.operators[0]
    assert set(changed.shared_files) == {moved}
    assert metadata.shared_files != changed.shared_files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shared": None}, "shared"),
        ({"private": {"../x": {"kind": "bytes", "data": b""}}}, "../x"),
        ({"private": {".hidden": {"kind": "bytes", "data": b""}}}, ".hidden"),
        ({"private": {"a/b": {"kind": "bytes", "data": b""}}}, "a/b"),
        ({"private": {7: {"kind": "bytes", "data": b""}}}, "7"),
        ({"private": {"000012.sst": {"kind": "bytes", "data": b""}}}, "twice"),
        ({"shared": {"x": {"key": "", "handle": {"kind": "file", "path": "file:/a", "size": 1, "crc32": 1}}}}, "no place"),
        ({"shared": {"x": {"key": "k", "handle": {"kind": "file", "path": "a", "size": 1, "crc32": 1}}}}, "no place"),
        ({"shared": {"x": {"key": "k", "handle": {"kind": "bytes", "data": b""}}}}, "no place"),
        (
            {"shared": {"x": {"key": "k", "handle": {"kind": "file", "path": "file:/a/../b", "size": 1, "crc32": 1}}}},
            "leads",
        ),
        ({"checkpointed_size": 1261}, "1261 of 1260"),
        ({"checkpointed_size": -1}, "checkpointed_size"),
        ({"end_key_group": -1}, "end_key_group"),
        ({"meta": 5}, "a state handle"),
        ({"format": None}, "format"),
    ],
)
def test_what_is_none_is_refused(change, message):
    assert IncrementalKeyedStateHandle.from_plain(handle().to_plain()) == handle()
    with pytest.raises(CorruptSnapshotError, match="damaged") as raised:
        IncrementalKeyedStateHandle.from_plain(handle().to_plain() | change)
    assert message in raised.value.message

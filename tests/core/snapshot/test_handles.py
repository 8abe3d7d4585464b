from __future__ import annotations

import zlib

import pytest

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.handles.handles import (
    ByteStreamStateHandle,
    FileStateHandle,
    StateHandle,
    check_path,
    handle_from_plain,
    handle_to_plain,
)


@pytest.mark.parametrize(
    "handle",
    [
        ByteStreamStateHandle(b""),
        ByteStreamStateHandle(b"\x00\xff"),
        FileStateHandle("count-0-keyed-a1b2", 2**40, 0xFFFFFFFF),
        FileStateHandle("file:/ckpt/job/shared/000012.sst", 0, 0),
        FileStateHandle("s3://bucket/job/shared/000012.sst", 1, 1),
    ],
)
def test_handles_come_back_from_plain_data(handle: StateHandle) -> None:
    assert handle_from_plain(handle_to_plain(handle)) == handle


def test_inline_state_knows_its_size_and_checksum() -> None:
    handle = ByteStreamStateHandle(b"hello")
    assert (handle.size, handle.crc32) == (5, zlib.crc32(b"hello"))


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../other",
        "a/../../b",
        "a/./b",
        "a//b",
        "/etc/passwd",
        "//host/x",
        "a/",
        "a\x00b",
        "a\nb",
        "..\\b",
        "file:/a/../b",
        "s3://bucket/../x",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(CorruptSnapshotError):
        check_path(path)
    with pytest.raises(CorruptSnapshotError):
        handle_from_plain({"kind": "file", "path": path, "size": 1, "crc32": 1})


@pytest.mark.parametrize("path", ["a", "a/b", "..a/b..", "file:/a/b", "s3://bucket/a", "file:a/b", "a:/b/c", "é/ü"])
def test_paths_that_lead_down_are_taken(path: str) -> None:
    check_path(path)


def test_each_path_is_judged_by_itself_in_a_directory_that_is_known() -> None:
    check_path("file:/ckpt/job/shared/000012.sst")
    for name in ("", ".", "..", "a\\b", "a\nb"):
        with pytest.raises(CorruptSnapshotError):
            check_path(f"file:/ckpt/job/shared/{name}")


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {},
        {"kind": "ftp"},
        {"kind": 1},
        {"kind": "bytes"},
        {"kind": "bytes", "data": "text"},
        {"kind": "file", "path": "a", "size": 1},
        {"kind": "file", "path": "a", "size": -1, "crc32": 1},
        {"kind": "file", "path": "a", "size": True, "crc32": 1},
        {"kind": "file", "path": "a", "size": 1.0, "crc32": 1},
        {"kind": "file", "path": "a", "size": 1, "crc32": 2**32},
        {"kind": "file", "path": b"a", "size": 1, "crc32": 1},
    ],
)
def test_plain_data_that_is_no_handle_is_refused(plain: object) -> None:
    with pytest.raises(CorruptSnapshotError):
        handle_from_plain(plain)


def test_entries_of_later_versions_are_left_alone() -> None:
    assert handle_from_plain({"kind": "bytes", "data": b"x", "codec": "snappy"}) == ByteStreamStateHandle(b"x")

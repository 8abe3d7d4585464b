"""Finds the snapshots below a directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pystate.common.errors import PystateError, SnapshotError
from pystate.common.text.place_text import fault_of_place
from pystate.core.snapshot.storage.snapshot_location import (
    METADATA_FILE,
    SHARED_DIRECTORY,
    TASK_OWNED_DIRECTORY,
    SnapshotLocation,
    is_snapshot_directory,
    parse_location,
)
from pystate.core.snapshot.storage.state_sink import storage_errors
from pystate.ops.catalog.snapshot_summary import SnapshotSummary, read_snapshot

_MAX_DEPTH = 8
_NO_SNAPSHOTS = (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY)


@dataclass(frozen=True)
class DamagedSnapshot:
    """A directory with a damaged snapshot, and the reason."""

    uri: str
    problem: str


@dataclass
class Catalog:
    """The snapshots below some directories.

    Attributes:
        snapshots: The snapshots, newest first.
        damaged: Snapshots whose `_metadata` can't be read, ordered by path.
    """

    snapshots: list[SnapshotSummary] = field(default_factory=list)
    damaged: list[DamagedSnapshot] = field(default_factory=list)


@dataclass(frozen=True)
class Directory:
    """A directory on a storage, with its entries."""

    fs: Any
    path: str
    uri: str
    files: dict[str, dict[str, Any]]
    folders: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    @property
    def is_snapshot(self) -> bool:
        """Whether it is the directory of a snapshot, even an incomplete one."""
        return METADATA_FILE in self.files or is_snapshot_directory(self.name)


def walk(directory: str) -> Iterator[Directory | DamagedSnapshot]:
    """Iterate over a directory and all directories below it, except those in snapshots.

    Raises:
        SnapshotError: There is no such directory, or it can't be read. An unreadable one below it is a DamagedSnapshot.
    """
    fs, path, uri = parse_location(directory)
    with storage_errors("look at", directory):
        fs.invalidate_cache()
        there = fs.isdir(path)
    if not there:
        message = f"There is no directory {directory}."
        raise SnapshotError(message)
    yield from _walk(fs, path, uri, 0)


def _walk(fs: Any, path: str, uri: str, depth: int) -> Iterator[Directory | DamagedSnapshot]:
    try:
        found = _listed(fs, path, uri)
    except SnapshotError as error:
        if depth == 0:
            raise
        yield DamagedSnapshot(uri, error.message)
        return
    yield found
    if found.is_snapshot or depth == _MAX_DEPTH:
        return
    for name in found.folders:
        fault = fault_of_place(name)
        if fault is not None:
            yield DamagedSnapshot(f"{uri.rstrip('/')}/{ascii(name)[1:-1]}", fault)
            continue
        yield from _walk(fs, f"{path.rstrip('/')}/{name}", f"{uri.rstrip('/')}/{name}", depth + 1)


def _listed(fs: Any, path: str, uri: str) -> Directory:
    with storage_errors("list", uri):
        entries = fs.ls(path, detail=True)
    files, folders = {}, []
    for entry in entries:
        name = str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]
        if entry["type"] == "directory":
            folders.append(name)
        else:
            files[name] = entry
    return Directory(fs, path, uri, files, tuple(sorted(folders)))


def find_snapshots(directories: list[str], *, checkpoints: bool) -> Catalog:
    """Read the `_metadata` of all savepoints below some directories.

    Args:
        directories: Where to search; duplicates count once.
        checkpoints: Whether to include checkpoints.

    Raises:
        SnapshotError: A directory doesn't exist, or can't be read.
    """
    catalog = Catalog()
    seen: set[str] = set()
    for directory in directories:
        for found in walk(directory):
            if found.uri in seen:
                continue
            seen.add(found.uri)
            if isinstance(found, DamagedSnapshot):
                catalog.damaged.append(found)
            elif found.is_snapshot and found.name not in _NO_SNAPSHOTS:
                _add(catalog, found, checkpoints)
    catalog.snapshots.sort(key=lambda one: (-one.timestamp_ms, -one.checkpoint_id, one.uri))
    catalog.damaged.sort(key=lambda one: one.uri)
    return catalog


def _add(catalog: Catalog, found: Directory, checkpoints: bool) -> None:
    if not checkpoints and found.name.startswith("chk-"):
        return
    if METADATA_FILE not in found.files:
        if found.name.startswith("savepoint-"):  # a checkpoint without it has failed, or is being written
            problem = f"it has no {METADATA_FILE}: it never completed, or is being written"
            catalog.damaged.append(DamagedSnapshot(found.uri, problem))
        return
    try:
        summary = SnapshotSummary.of(read_snapshot(SnapshotLocation(found.uri)), found.uri)
    except PystateError as error:
        catalog.damaged.append(DamagedSnapshot(found.uri, error.message))
        return
    if checkpoints or summary.is_savepoint:
        catalog.snapshots.append(summary)

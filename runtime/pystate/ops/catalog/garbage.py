"""Finds orphaned files on a checkpoint storage, which belong to no snapshot.

Files that a `_metadata` refers to are never orphans, and neither are recent ones, which may still be written. Symbolic links
are neither followed nor deleted; files that a `_metadata` refers to through a link are referenced all the same.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from pystate.common.errors import PystateError
from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.storage.ownership import is_note, real_place
from pystate.core.snapshot.storage.shared_state_folder import SHARED_FILE, SharedStateFolder
from pystate.core.snapshot.storage.snapshot_location import (
    METADATA_FILE,
    SHARED_DIRECTORY,
    TASK_OWNED_DIRECTORY,
    SnapshotLocation,
    is_snapshot_directory,
    parse_location,
)
from pystate.core.snapshot.storage.state_sink import storage_errors
from pystate.ops.catalog.listing import DamagedSnapshot, Directory, walk
from pystate.ops.catalog.snapshot_summary import read_snapshot

_JOB_DIRECTORY = re.compile(r"[0-9a-f]{32}")
_IN_PROGRESS = re.compile(r"\..+\.inprogress")
_WRITTEN = re.compile(r".+-[0-9a-f]{8}")  # see SnapshotLocation.write_state: files added by users have other names
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "modified")


class OrphanKind(Enum):
    """Why something is an orphan."""

    INCOMPLETE = "snapshot that never completed"
    IN_PROGRESS = "half-written file"
    UNNAMED = "file that its snapshot doesn't name"
    UNREFERENCED = "shared file that no checkpoint refers to"
    UNKNOWN_JOB = "folder of an unknown job without a checkpoint"


@dataclass(frozen=True)
class Orphan:
    """A file or directory that belongs to no snapshot.

    Attributes:
        kind: Why it is an orphan.
        uri: Its URI.
        size: Its size in bytes.
    """

    kind: OrphanKind
    uri: str
    size: int


class GarbageCollection:
    """Finds and deletes orphans.

    Args:
        directories: The directories to search.
        now_ms: The time, ms since 1970.
        least_age_ms: The minimum age; younger files, and those of unknown age, are kept.
        job_state: Returns whether a job runs (True), has ended (False), or is unknown (None).
        jobs: Whether to include folders of unknown jobs.

    Attributes:
        kept: Sentences about what was kept, and why.
    """

    def __init__(
        self,
        directories: list[str],
        *,
        now_ms: int,
        least_age_ms: int,
        job_state: Callable[[str], bool | None],
        jobs: bool = False,
    ) -> None:
        self._directories = directories
        self._now_ms = now_ms
        self._least_age_ms = least_age_ms
        self._job_state = job_state
        self._jobs = jobs
        self.kept: list[str] = []

    def orphans(self) -> list[Orphan]:
        """Return all orphans, by path.

        Raises:
            SnapshotError: A directory doesn't exist, or can't be read.
        """
        self.kept = []
        found: dict[str, Directory] = {}
        for directory in self._directories:
            for one in walk(real_place(directory)):
                if isinstance(one, Directory):
                    found.setdefault(one.uri, one)
                else:
                    self.kept.append(_unreadable(one))
        named, unsure = self._named(found.values())
        orphans: list[Orphan] = []
        for one in found.values():
            orphans += self._of(one, named, unsure)
        if self._jobs:
            orphans += self._job_folders(found, named, unsure)
        gone = [orphan.uri for orphan in orphans if orphan.kind is OrphanKind.UNKNOWN_JOB]
        return sorted(
            (orphan for orphan in orphans if not any(orphan.uri.startswith(f"{folder}/") for folder in gone)),
            key=lambda orphan: orphan.uri,
        )

    def _named(self, directories: Any) -> tuple[set[str], bool]:
        """Return the URIs of all files referenced by a `_metadata`, and whether any `_metadata` can't be read."""
        named: set[str] = set()
        unsure = False
        for one in directories:
            if METADATA_FILE not in one.files:
                continue
            try:
                named |= _real_files(named_files(read_snapshot(SnapshotLocation(one.uri)), one.uri))
            except PystateError as error:
                unsure = True
                self.kept.append(f"{one.uri} is left alone: {error.message}")
                named |= {f"{one.uri}/{name}" for name in one.files}
        return named, unsure

    def _of(self, one: Directory, named: set[str], unsure: bool) -> Iterator[Orphan]:
        complete = METADATA_FILE in one.files
        if is_snapshot_directory(one.name) and not complete:
            if self._is_written(one):
                return
            files = list(_all_files(one))
            ours = not one.folders and all(map(_is_ours, one.files, one.files.values()))
            if ours and self._is_old(one, files) and not any(uri in named for uri, _ in files):
                yield Orphan(OrphanKind.INCOMPLETE, one.uri, sum(_size(info) for _, info in files))
            return
        if one.name == SHARED_DIRECTORY and not unsure:
            yield from self._unreferenced(one, named)
        known = complete or one.name in (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY)
        for name, info in sorted(one.files.items()):
            uri = f"{one.uri}/{name}"
            if name == METADATA_FILE or uri in named or _is_link(info) or not self._is_old_file(info):
                continue
            if _IN_PROGRESS.fullmatch(name):
                if known:
                    yield Orphan(OrphanKind.IN_PROGRESS, uri, _size(info))
            elif complete and not unsure and _WRITTEN.fullmatch(name) and not is_note(name):
                yield Orphan(OrphanKind.UNNAMED, uri, _size(info))

    def _unreferenced(self, one: Directory, named: set[str]) -> Iterator[Orphan]:
        """Iterate over the files in the folder of an ended job that no checkpoint of any job needs."""
        job = one.uri.rsplit("/", 2)[-2]
        state = self._job_state(job) if _JOB_DIRECTORY.fullmatch(job) else True
        if state is True or (state is None and not self._jobs):
            return
        found = {
            name: info
            for name, info in sorted(one.files.items())
            if SHARED_FILE.fullmatch(name)
            and f"{one.uri}/{name}" not in named
            and not _is_link(info)
            and self._is_old_file(info)
        }
        if not found:
            return
        try:
            needed = SharedStateFolder(one.uri).needed()
        except PystateError as error:
            self.kept.append(f"{one.uri} is left alone: {error.message}")
            return
        for name in found.keys() - needed:
            if not _IN_PROGRESS.fullmatch(name):
                yield Orphan(OrphanKind.UNREFERENCED, f"{one.uri}/{name}", _size(found[name]))

    def _is_written(self, one: Directory) -> bool:
        """Return whether a running job may still be writing a checkpoint."""
        job = one.uri.rsplit("/", 2)[-2]
        return bool(_JOB_DIRECTORY.fullmatch(job)) and self._job_state(job) is True

    def _job_folders(self, found: dict[str, Directory], named: set[str], unsure: bool) -> Iterator[Orphan]:
        """Iterate over folders of unknown jobs without a restorable checkpoint."""
        for one in found.values():
            ours = one.folders and not one.files and all(map(_is_of_a_job, one.folders))
            if not (_JOB_DIRECTORY.fullmatch(one.name) and ours) or self._job_state(one.name) is not None:
                continue
            below = [other for other in found.values() if other.uri.startswith(f"{one.uri}/")]
            files = list(_all_files(one))
            if any(METADATA_FILE in other.files for other in below):
                self.kept.append(f"{one.uri} is left alone: it holds checkpoints that can be restored")
            elif unsure or any(uri in named for uri, _ in files) or self._is_used(one):
                self.kept.append(f"{one.uri} is left alone: another snapshot names files in it, or may do so")
            elif any(_is_link(info) for _, info in files):
                self.kept.append(f"{one.uri} is left alone: there is a symbolic link in it")
            elif self._is_old(one, files):
                yield Orphan(OrphanKind.UNKNOWN_JOB, one.uri, sum(_size(info) for _, info in files))

    def _is_used(self, one: Directory) -> bool:
        """Return whether checkpoints elsewhere refer, or may refer, to files in a job's folder."""
        try:
            return bool(SharedStateFolder(f"{one.uri}/{SHARED_DIRECTORY}").needed())
        except PystateError:
            return True

    def _is_old(self, one: Directory, files: list[tuple[str, dict[str, Any]]]) -> bool:
        if files:
            return all(self._is_old_file(info) for _, info in files)
        with contextlib.suppress(Exception):  # filesystems without real directories raise various errors
            return self._is_old_file(one.fs.info(one.path))
        return False

    def _is_old_file(self, info: dict[str, Any]) -> bool:
        modified = _modified_ms(info)
        return modified is not None and self._now_ms - modified >= self._least_age_ms

    def delete(self, orphan: Orphan) -> bool:
        """Delete an orphan; return False if it is no longer one.

        Raises:
            SnapshotError: It can't be deleted.
        """
        again = GarbageCollection(
            [orphan.uri if orphan.kind in _FOLDERS else orphan.uri.rsplit("/", 1)[0]],
            now_ms=self._now_ms,
            least_age_ms=self._least_age_ms,
            job_state=self._job_state,
            jobs=self._jobs,
        )
        with storage_errors("delete", orphan.uri):
            fs, path, _ = parse_location(orphan.uri)
            fs.invalidate_cache()
            if not fs.exists(path) or orphan.uri not in {one.uri for one in again.orphans()}:
                return False
            if orphan.kind in _FOLDERS:
                fs.rm(path, recursive=True)
            else:
                fs.rm_file(path)
        return True


_FOLDERS = (OrphanKind.INCOMPLETE, OrphanKind.UNKNOWN_JOB)


def named_files(metadata: CheckpointMetadata, directory: str) -> set[str]:
    """Return the URIs of all files that a snapshot needs besides its `_metadata`.

    Args:
        metadata: The content of `_metadata`.
        directory: The URI of its directory.
    """
    handles: list[StateHandle] = [] if metadata.source_position is None else [metadata.source_position.files]
    for operator in metadata.operators:
        for state in operator.subtasks.values():
            for keyed in state.keyed_state:
                if isinstance(keyed, IncrementalKeyedStateHandle):
                    handles += [keyed.meta, *keyed.files.values()]
                else:
                    handles.append(keyed.handle)
            handles += [raw.handle for raw in state.raw_keyed_state]
            handles += [handle.handle for handle in (*state.operator_state, *state.raw_operator_state)]
            handles += [] if state.input_channel_state is None else state.input_channel_state.handles
    files = [handle for handle in handles if isinstance(handle, FileStateHandle)]
    return {parse_location(file.path)[2] if file.is_absolute else f"{directory.rstrip('/')}/{file.path}" for file in files}


def _real_files(uris: set[str]) -> set[str]:
    """Return files below real directories, and the targets of links."""
    directories = {directory: real_place(directory) for directory in {uri.rpartition("/")[0] for uri in uris}}
    real = {f"{directories[directory]}/{name}" for directory, _, name in (uri.rpartition("/") for uri in uris)}
    return real | {real_place(uri) for uri in real if os.path.islink(uri.removeprefix("file:"))}


def _is_link(info: dict[str, Any]) -> bool:
    return bool(info.get("islink"))


def _is_ours(name: str, info: dict[str, Any]) -> bool:
    """Return whether it is a file with a name used by snapshots."""
    return not _is_link(info) and bool(_WRITTEN.fullmatch(name) or _IN_PROGRESS.fullmatch(name))


def _is_of_a_job(name: str) -> bool:
    """Return whether a job's folder may have a folder of that name."""
    return name in (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY) or is_snapshot_directory(name)


def _all_files(directory: Directory) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over (URI, file info) of all files in a directory and below it."""
    fs, path = directory.fs, directory.path.rstrip("/")
    with storage_errors("list", directory.uri):
        found = fs.find(path, detail=True)
    for name, info in found.items():
        relative = str(name)[len(path) :].lstrip("/")
        yield f"{directory.uri.rstrip('/')}/{relative}", info


def _unreadable(one: DamagedSnapshot) -> str:
    return f"{one.uri} is left alone: {one.problem}"


def _size(info: dict[str, Any]) -> int:
    return int(info.get("size") or 0)


def _modified_ms(info: dict[str, Any]) -> int | None:
    """Return the modification time, ms since 1970; None if the filesystem doesn't tell."""
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, (int, float)):
            return int(value * 1000)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, datetime):
            moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
            return int(moment.timestamp() * 1000)
    return None

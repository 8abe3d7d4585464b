"""Ownership of a snapshot: notes beside its files, which outlive drivers and are seen by every installation.

A *claim* is in a snapshot's directory: the job it names deletes the snapshot when it has newer ones. A *use* is in a folder
of shared files: checkpoints of the job it names, in another folder, refer to files there.

Layout of a note, numbers big-endian: magic "PYSTOWNR", version u32, body length u64, body (msgpack), crc32 u32 of everything
before. It contains the location where it was created, so that a copy of a directory is unowned.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.plain import take, take_text, unsound
from pystate.core.snapshot.small_file import SmallFile
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, is_snapshot_directory, parse_location

NOTE_VERSION = 1

_FILE = SmallFile(
    b"PYSTOWNR",
    NOTE_VERSION,
    struct.Struct(">8sIQ"),
    "the note of its owner",
    "use the pystate version that wrote it, or a newer one",
    most_bytes=1 << 16,
)
_NOTE = re.compile(r"(claim|use)-([0-9a-f]{32})-[0-9a-f]{8}")


class NoteKind(Enum):
    """The kind of a note."""

    CLAIM = "claim"
    USE = "use"


@dataclass(frozen=True)
class OwnershipNote:
    """A job's note about files that it didn't write.

    Attributes:
        kind: Its kind.
        job_id: The job.
        place: URI of the directory in which the note was created.
        checkpoints: URI of the directory with the job's own checkpoints; None if it has none.
        owned: Whether the job deletes the files when they aren't needed any more.
    """

    kind: NoteKind
    job_id: str
    place: str
    checkpoints: str | None
    owned: bool

    def to_bytes(self) -> bytes:
        """Return the content of its file."""
        plain = {
            "kind": self.kind.value,
            "job_id": self.job_id,
            "place": self.place,
            "checkpoints": self.checkpoints,
            "owned": self.owned,
        }
        return _FILE.to_bytes(plain)

    @classmethod
    def from_bytes(cls, data: bytes) -> OwnershipNote:
        """Read the content of a file.

        Raises:
            CorruptSnapshotError: It is damaged.
            RestoreError: A newer version wrote it.
        """
        plain = _FILE.from_bytes(data)
        kind, owned = take_text(plain, "kind"), take(plain, "owned")
        checkpoints = None if take(plain, "checkpoints") is None else take_text(plain, "checkpoints")
        if kind not in (one.value for one in NoteKind) or not isinstance(owned, bool):
            raise unsound(what="the note of its owner says something else than who owns it")
        return cls(NoteKind(kind), take_text(plain, "job_id"), take_text(plain, "place"), checkpoints, owned)


def is_note(name: str) -> bool:
    """Whether a file of that name is a note."""
    return _NOTE.fullmatch(name) is not None


class Notes:
    """The notes of one kind in one directory.

    Args:
        location: The directory.
        kind: Their kind.
    """

    def __init__(self, location: SnapshotLocation, kind: NoteKind) -> None:
        self._location = location
        self._kind = kind

    def read(self) -> dict[str, OwnershipNote]:
        """Return the notes that were created in this directory, by job id.

        Raises:
            CorruptSnapshotError: One is damaged; the file is named.
            RestoreError: A newer version wrote one.
            SnapshotError: The directory can't be read.
        """
        found = {}
        for name, job_id in self._files():
            where = f"{self._location.uri}/{name}"
            try:
                note = OwnershipNote.from_bytes(self._location.read_file(name))
            except PystateError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue  # taken back since the directory was listed
                error.where = where
                raise
            if (note.kind, note.job_id) != (self._kind, job_id):
                message = f"The note is one of job {note.job_id}, its name says another."
                raise CorruptSnapshotError(message, where=where)
            if same_place(note.place, self._location.uri):
                found[job_id] = note
        return found

    def write(self, job_id: str, checkpoints: str | None, *, owned: bool) -> None:
        """Write a note.

        Raises:
            SnapshotError: It can't be written.
        """
        note = OwnershipNote(self._kind, job_id, self._location.uri, checkpoints, owned)
        self._location.write_state(f"{self._kind.value}-{job_id}", lambda sink: sink.write(note.to_bytes()), 0)

    def remove(self, job_id: str) -> None:
        """Delete a job's notes; does nothing if there are none.

        Raises:
            SnapshotError: They can't be deleted.
        """
        for name, owner in self._files():
            if owner == job_id:
                self._location.remove(name)

    def _files(self) -> Iterator[tuple[str, str]]:
        for name in sorted(self._location.file_names()):
            match = _NOTE.fullmatch(name)
            if match is not None and match[1] == self._kind.value:
                yield name, match[2]


def claimant(location: SnapshotLocation) -> str | None:
    """Return the id of the job that has claimed a snapshot; None if there is none.

    Raises:
        SnapshotError: The directory can't be read, or a note in it is damaged.
    """
    return next(iter(Notes(location, NoteKind.CLAIM).read()), None)


def claim(location: SnapshotLocation, job_id: str, checkpoints: str | None, has_ended: Callable[[str], bool]) -> None:
    """Claim a snapshot for a job; idempotent.

    The note is written before others are looked for. So of two jobs that claim it at the same moment at most one gets it.

    Args:
        location: The snapshot.
        job_id: The job.
        checkpoints: URI of the directory with the job's own checkpoints.
        has_ended: Whether a job is known to have ended: what it had claimed is free.

    Raises:
        RestoreError: Another job has claimed it, or it could not be deleted by its name.
        SnapshotError: The storage failed, or a note is damaged.
    """
    if not is_snapshot_directory(location.uri.rstrip("/").rsplit("/", 1)[-1]):
        message = "The directory has another name than a checkpoint's or savepoint's; a job could never delete it."
        raise RestoreError(message, where=location.uri, hint="give it its name back, or start with --claimMode no_claim")
    notes = Notes(location, NoteKind.CLAIM)
    if job_id in notes.read():
        return
    notes.write(job_id, checkpoints, owned=True)
    try:
        others = [other for other in notes.read() if other != job_id]
        for other in others:
            if not has_ended(other):
                raise _owned_by(other, location)
        for other in others:
            notes.remove(other)
    except BaseException:
        notes.remove(job_id)
        raise


def _owned_by(job_id: str, location: SnapshotLocation) -> RestoreError:
    message = f"Job {job_id} has claimed the snapshot; two jobs can't own it."
    hint = (
        "start with --claimMode no_claim, or cancel that job first; if it is gone for good, delete the file "
        f"claim-{job_id}-* in the snapshot's directory"
    )
    return RestoreError(message, where=location.uri, hint=hint)


def same_place(one: str, other: str) -> bool:
    """Whether two URIs mean the same directory."""
    return real_place(one) == real_place(other)


def real_place(text: str) -> str:
    """Return the canonical URI of a location, with links resolved on this machine. An invalid location is unchanged."""
    try:
        uri = parse_location(text)[2]
    except PystateError:
        return text
    return f"file:{os.path.realpath(uri[len('file:') :])}" if uri.startswith("file:") else uri


def place_of_shared(handle: FileStateHandle) -> tuple[str, str]:
    """Return the URI of the directory of a shared file, and its name."""
    directory, _, name = handle.path.rpartition("/")
    return directory, name

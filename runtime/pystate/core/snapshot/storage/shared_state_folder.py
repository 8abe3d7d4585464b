"""Determines from outside of a job which files of its shared folder are still needed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pystate.common.errors import PystateError, SnapshotError
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.ownership import NoteKind, Notes, place_of_shared, same_place
from pystate.core.snapshot.storage.snapshot_location import (
    METADATA_FILE,
    SHARED_DIRECTORY,
    SnapshotLocation,
    is_snapshot_directory,
)

SHARED_FILE = re.compile(r"\.?([0-9a-f]{1,16})-(\d+)-[0-9a-f]{8}-.+")
"""How a job calls shared files: the beginning of its id, the checkpoint that brought the file, a token of the driver."""


class SharedStateFolder:
    """The `shared` folder of a job.

    Args:
        uri: The folder.
    """

    def __init__(self, uri: str) -> None:
        self.location = SnapshotLocation(uri)
        self.uses = Notes(self.location, NoteKind.USE)

    def needed(self, besides: str | None = None) -> set[str]:
        """Return the names of the files that any checkpoint refers to.

        Considers the checkpoints of the job that owns the folder, and of all jobs with a note in it.

        Args:
            besides: A job whose own checkpoints are ignored, since it knows them itself.

        Raises:
            PystateError: A note or a checkpoint can't be read, so the result is unknown.
        """
        directories = {self.location.uri.rstrip("/").rsplit("/", 1)[0]}
        for job_id, note in self.uses.read().items():
            if job_id != besides and note.checkpoints is not None:
                directories.add(note.checkpoints.rstrip("/"))
        return {name for directory in directories for name in self._named_in(directory)}

    def free(self, handles: Iterable[FileStateHandle], besides: str | None = None) -> int:
        """Delete those of the given files that aren't needed; return how many.

        What isn't called as a job calls its shared files stays, whatever a snapshot says.

        Raises:
            PystateError: It is unknown which are needed, or one can't be deleted.
        """
        needed, count = self.needed(besides), 0
        for name in sorted({place_of_shared(handle)[1] for handle in handles} - needed):
            if SHARED_FILE.fullmatch(name):
                self.location.remove(name)
                count += 1
        return count

    def _named_in(self, directory: str) -> set[str]:
        named: set[str] = set()
        for name in SnapshotLocation(directory).file_names():
            if not is_snapshot_directory(name):
                continue
            snapshot = SnapshotLocation(f"{directory}/{name}")
            if METADATA_FILE in snapshot.file_names():
                named |= self.files_of(read_metadata(snapshot.read_metadata(), snapshot.uri))
        return named

    def files_of(self, metadata: CheckpointMetadata) -> set[str]:
        """Return the names of the files of the folder that a checkpoint refers to."""
        named: dict[str, set[str]] = {}
        for directory, name in (place_of_shared(file.handle) for file in metadata.shared_files):
            named.setdefault(directory, set()).add(name)
        return {name for directory, names in named.items() if same_place(directory, self.location.uri) for name in names}


def shared_folders(metadata: CheckpointMetadata) -> dict[str, list[FileStateHandle]]:
    """Return the shared files that a checkpoint refers to, by the URI of their folder."""
    found: dict[str, list[FileStateHandle]] = {}
    for file in metadata.shared_files:
        found.setdefault(place_of_shared(file.handle)[0], []).append(file.handle)
    return found


def free_shared_files(metadata: CheckpointMetadata, directory: str) -> list[PystateError]:
    """Delete the shared files of a deleted checkpoint that no other one needs.

    A checkpoint may say what it likes. So only the folder beside its own directory is dealt with, and those in which the job
    that took it has left word that the checkpoints beside this one refer to files in there.

    Args:
        metadata: What the checkpoint said.
        directory: URI of the directory that it stood in.

    Returns:
        The reason why files are kept of which it is unknown whether they are needed.
    """
    errors: list[PystateError] = []
    for uri, handles in shared_folders(metadata).items():
        if uri.rsplit("/", 1)[-1] != SHARED_DIRECTORY:
            continue
        try:
            folder = SharedStateFolder(uri)
            if _is_known_to(folder, metadata.job_id, directory.rstrip("/").rsplit("/", 1)[0]):
                folder.free(handles)
            else:
                message = f"nothing in {uri} says that checkpoints beside {directory} refer to files in it"
                errors.append(SnapshotError(message, where=uri))
        except PystateError as error:
            errors.append(error)
    return errors


def _is_known_to(folder: SharedStateFolder, job_id: str, checkpoints: str) -> bool:
    """Whether a shared folder belongs to the checkpoints in a directory, or has a note of their job."""
    if same_place(folder.location.uri.rstrip("/").rsplit("/", 1)[0], checkpoints):
        return True
    note = folder.uses.read().get(job_id)
    return note is not None and note.checkpoints is not None and same_place(note.checkpoints, checkpoints)

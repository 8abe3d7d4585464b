"""Local copies of a subtask's state files (Flink's local recovery), so that a restore needn't read the storage.

A copy has the name of the copied file, with its random suffix, and is only valid if length and checksum match the handle. So
no information about earlier attempts is needed: a matching copy is correct, others are ignored. A copy that can't be written
or read isn't an error: the storage has the state.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, cast

from pystate.common.configuration.file_system_settings import current_settings
from pystate.common.errors import CorruptSnapshotError
from pystate.common.files.folders import make_folders
from pystate.core.file_systems.local_files import open_new
from pystate.core.snapshot.handles.content_check import check_content
from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.snapshot.storage.state_sink import TeeSink

_CHECKPOINT = re.compile(r"chk-(\d+)")


def local_copies_folder(root: str | None, job_id: str) -> str:
    """Return the folder of a job's local copies on this machine.

    Args:
        root: Below which folder; None for that of temporary files.
        job_id: The job.
    """
    return os.path.join(root or tempfile.gettempdir(), f"pystate-{job_id[:16]}-local")


def remove_local_copies(roots: Sequence[str], job_id: str) -> None:
    """Remove all of a job's local copies on this machine.

    Args:
        roots: Below which folders; none for that of temporary files.
        job_id: The job.
    """
    for root in roots or (None,):
        shutil.rmtree(local_copies_folder(root, job_id), ignore_errors=True)


class LocalCopies:
    """The local copies of one subtask.

    Args:
        directory: A folder for the subtask only, which outlives the attempt; created when needed.

    Attributes:
        read: How many files were restored from copies.
        missed: How many were not, for lack of a valid copy.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()  # files are read by several threads
        self.read = 0
        self.missed = 0

    def writing(self, location: SnapshotLocation, checkpoint_id: int) -> SnapshotLocation:
        """Return a location that writes as `location` does, with copies."""
        return _CopyingLocation(location, self, checkpoint_id)

    def reading(self, location: SnapshotLocation) -> SnapshotLocation:
        """Return a location that reads valid copies, else from `location`."""
        return _CopyingLocation(location, self, None)

    def link(self, checkpoint_id: int, path: str, handle: FileStateHandle) -> None:
        """Link a local, immutable file as the copy of a file on the storage."""
        target = self._path(checkpoint_id, handle)
        with self._attempted(target):
            self._check_ours()
            make_folders(os.path.dirname(target), current_settings().folder_mode)
            _link_or_copy(path, target)

    def find(self, handle: StateHandle) -> str | None:
        """Return the path of the copy of a file; None if there is no valid one."""
        if not isinstance(handle, FileStateHandle):
            return None
        folders = self._checkpoints()
        try:
            self._check_ours()
        except OSError as error:
            _say(f"local copies of state are passed over: {error}")
            folders = {}
        for folder in folders.values():
            path = os.path.join(folder, _name_of(handle))
            try:
                with open(path, "rb") as file:
                    check_content(file, handle, path)
            except FileNotFoundError:
                continue
            except (OSError, CorruptSnapshotError) as error:
                _say(f"a local copy of state is passed over: {error}")
                continue
            with self._lock:
                self.read += 1
            return path
        with self._lock:
            self.missed += 1
        return None

    def checkpoint_ended(self, checkpoint_id: int, *, completed: bool) -> None:
        """Delete obsolete copies: of checkpoints older than a completed one, or of a failed one."""
        self._remove(lambda other: other < checkpoint_id if completed else other == checkpoint_id)

    def restored(self, checkpoint_id: int | None, whose: str) -> None:
        """Log where the state came from, and delete the other copies of the last attempt.

        Args:
            checkpoint_id: The checkpoint that was restored, None for none.
            whose: The subtask, for the log.
        """
        self._remove(lambda other: other != checkpoint_id)
        read, missed = self.read, self.missed
        if read or missed:
            copies = f"{read} of {read + missed} files came from copies on this machine"
            sys.stderr.write(f"{whose}: checkpoint {checkpoint_id} is restored, {copies}.\n")

    def open_copy(self, checkpoint_id: int, name: str) -> BinaryIO | None:
        """Open a new copy for writing; None if that fails."""
        folder = self._folder(checkpoint_id)
        with self._attempted(folder):
            self._check_ours()
            make_folders(folder, current_settings().folder_mode)
            return open_new(os.path.join(folder, f"{name}.inprogress"), current_settings().file_mode)
        return None

    def finish_copy(self, checkpoint_id: int, file: BinaryIO, handle: StateHandle | None) -> None:
        """Close a copy; it gets the name of the copied file, if there is a file.

        Args:
            checkpoint_id: The checkpoint.
            file: As `open_copy` gave it.
            handle: The handle of the written state; None if writing failed.
        """
        temporary = str(file.name)
        with self._attempted(temporary):
            file.close()
            if isinstance(handle, FileStateHandle):
                os.rename(temporary, self._path(checkpoint_id, handle))
                return
        with contextlib.suppress(OSError):
            os.unlink(temporary)

    def _folder(self, checkpoint_id: int) -> str:
        return os.path.join(self._directory, f"chk-{checkpoint_id}")

    def _path(self, checkpoint_id: int, handle: FileStateHandle) -> str:
        return os.path.join(self._folder(checkpoint_id), _name_of(handle))

    def _checkpoints(self) -> dict[int, str]:
        with contextlib.suppress(OSError):
            found = [(_CHECKPOINT.fullmatch(name), name) for name in os.listdir(self._directory)]
            return {int(match[1]): os.path.join(self._directory, name) for match, name in found if match is not None}
        return {}

    def _remove(self, gone: Callable[[int], bool]) -> None:
        for checkpoint_id, folder in self._checkpoints().items():
            if gone(checkpoint_id):
                shutil.rmtree(folder, ignore_errors=True)

    def _check_ours(self) -> None:
        """Check that no other user created the folder or can modify it, since its name can be guessed.

        Raises:
            OSError: It isn't ours alone.
        """
        root = os.path.dirname(self._directory)
        try:
            found = os.lstat(root)
        except FileNotFoundError:
            return
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) & current_settings().umask:
            raise OSError(errno.EPERM, "others have made this folder, or can write to it", root)

    @contextlib.contextmanager
    def _attempted(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _say(f"there is no local copy of a part of the state, {path} can't be written: {error}")


def _link_or_copy(path: str, target: str) -> None:
    try:
        os.link(path, target)
        os.chmod(target, current_settings().file_mode)  # what others have written, as RocksDB does, has the umask's mode
    except OSError:  # another disk, or one without links
        temporary = f"{target}.inprogress"
        _copy(path, temporary)
        os.rename(temporary, target)


def _copy(path: str, target: str) -> None:
    with open(path, "rb") as source, open_new(target, current_settings().file_mode) as copy:
        shutil.copyfileobj(source, copy)


def _name_of(handle: FileStateHandle) -> str:
    return handle.path.rsplit("/", 1)[-1]


def _say(sentence: str) -> None:
    sys.stderr.write(f"WARNING: {sentence}\n")


class _CopyingLocation(SnapshotLocation):
    """A location with local copies: written along with it, read in preference to it.

    Args:
        location: The location.
        copies: The copies.
        checkpoint_id: The checkpoint that is written; None if none is.
    """

    def __init__(self, location: SnapshotLocation, copies: LocalCopies, checkpoint_id: int | None) -> None:
        self.uri = location.uri  # the base is not initialized: all methods called by subtasks are delegated
        self._location = location
        self._copies = copies
        self._checkpoint_id = checkpoint_id

    def write_state(self, name: str, write: Callable[[BinaryIO], object], inline_threshold: int) -> StateHandle:
        """Write a piece of state, and its copy."""
        if self._checkpoint_id is None:
            return self._location.write_state(name, write, inline_threshold)
        copy = self._copies.open_copy(self._checkpoint_id, name)
        if copy is None:
            return self._location.write_state(name, write, inline_threshold)
        tees: list[TeeSink] = []

        def write_both(sink: BinaryIO) -> object:
            tees.append(TeeSink(sink, copy))
            return write(cast(BinaryIO, tees[-1]))

        handle: StateHandle | None = None
        try:
            handle = self._location.write_state(name, write_both, inline_threshold)
        finally:
            whole = bool(tees) and tees[-1].copied
            self._copies.finish_copy(self._checkpoint_id, copy, handle if whole else None)
        return handle

    def open(self, handle: StateHandle) -> BinaryIO:
        """Open the copy of a piece of state, else the file on the storage."""
        path = self._copies.find(handle)
        return self._location.open(handle) if path is None else open(path, "rb")

    def download(self, handle: StateHandle, path: str) -> None:
        """Download a piece of state to a local file: from the copy, else from the storage."""
        copy = self._copies.find(handle)
        if copy is None:
            self._location.download(handle, path)
        elif isinstance(handle, FileStateHandle) and handle.is_absolute:
            _link_or_copy(copy, path)  # a file that checkpoints share is never written again
        else:
            _copy(copy, path)

    def absolute(self, handle: StateHandle) -> StateHandle:
        """As `SnapshotLocation.absolute`."""
        return self._location.absolute(handle)

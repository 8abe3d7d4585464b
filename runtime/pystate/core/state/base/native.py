"""Snapshots in a backend's own files: quick to take and to restore, for the same backend only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from pystate.common.errors import RestoreError
from pystate.common.key_groups import KeyGroupRange


class NativeSnapshot(ABC):
    """The files that hold the last flushed epoch, kept as they are until `release`. Methods may be called from any thread.

    Attributes:
        format: Which backend reads them.
        backend_id: The very backend that wrote them.
    """

    format: str
    backend_id: str

    @property
    @abstractmethod
    def shared_files(self) -> Mapping[str, str]:
        """Name -> path of files that later snapshots of this backend will hold, too; may wait until they are there.

        What a name stands for never changes within one backend.

        Raises:
            StateError: The files can't be made.
            SnapshotError: The snapshot was released before they were there.
        """

    @property
    @abstractmethod
    def private_files(self) -> Mapping[str, str]:
        """Name -> path of the other files; see `shared_files`."""

    @abstractmethod
    def write_meta(self, sink: BinaryIO) -> None:
        """Write what a restore must know besides the files. The caller opens and closes the sink."""

    @abstractmethod
    def release(self) -> None:
        """Remove the files; who still reads them gets an error. May be called again."""


@dataclass(frozen=True)
class NativeSource:
    """A native snapshot on local disk, ready to be restored from.

    Attributes:
        directory: A folder below the backend's working directory with the files by their names; the backend's from now on.
        meta: What `NativeSnapshot.write_meta` wrote, open for reading.
        where: What errors name as the place.
        key_groups: Those that it is said to have, which must be those that it has.
    """

    directory: str
    meta: BinaryIO
    where: str
    key_groups: KeyGroupRange


def unreadable_native(formats: Iterable[str], backend: str) -> RestoreError:
    """Return the error for a native snapshot of another backend.

    Args:
        formats: Whose files it is made of.
        backend: What shall read it, for people.
    """
    message = (
        f"The snapshot is native or incremental: its keyed state is in the own files of the {' and '.join(sorted(formats))} "
        f"state backend that took it, which {backend} can't read."
    )
    hint = "start with the old state backend, take a savepoint of the canonical format, and start from that with the new one"
    return RestoreError(message, hint=hint)

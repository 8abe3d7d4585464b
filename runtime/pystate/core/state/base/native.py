"""Native snapshots, in a backend's own files: fast to take and to restore, but only by the same backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from pystate.common.errors import RestoreError
from pystate.common.key_groups import KeyGroupRange


class NativeSnapshot(ABC):
    """The files of the last flushed epoch, kept unchanged until `release`. Thread-safe.

    Attributes:
        format: Their format.
        backend_id: The backend instance that wrote them.
    """

    format: str
    backend_id: str

    @property
    @abstractmethod
    def shared_files(self) -> Mapping[str, str]:
        """Name -> path of files that later snapshots of this backend will share; may wait for them.

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
        """Write the metadata needed for a restore besides the files. The caller opens and closes the sink."""

    @abstractmethod
    def release(self) -> None:
        """Remove the files; active readers get an error. Idempotent."""


@dataclass(frozen=True)
class NativeSource:
    """A native snapshot on local disk, ready to be restored from.

    Attributes:
        directory: A folder below the backend's working directory with the files by name; owned by the backend from now on.
        meta: The output of `NativeSnapshot.write_meta`, open for reading.
        where: Its location, for errors.
        key_groups: The expected key groups, which must match its content.
    """

    directory: str
    meta: BinaryIO
    where: str
    key_groups: KeyGroupRange


def unreadable_native(formats: Iterable[str], backend: str) -> RestoreError:
    """Return the error for a native snapshot of another backend.

    Args:
        formats: The formats of its files.
        backend: The name of the backend that is to read it.
    """
    message = (
        f"The snapshot is native or incremental: its keyed state is in the own files of the {' and '.join(sorted(formats))} "
        f"state backend that took it, which {backend} can't read."
    )
    hint = "start with the old state backend, take a savepoint of the canonical format, and start from that with the new one"
    return RestoreError(message, hint=hint)

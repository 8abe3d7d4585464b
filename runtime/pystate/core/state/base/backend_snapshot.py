"""Frozen views of a keyed state backend, canonical and native, and the header of canonical files."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import BinaryIO

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import RestoreError, SnapshotError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, Entry, StateMetaInfoSnapshot
from pystate.core.state.files.compression import snapshot_codec
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter


@dataclass(frozen=True)
class KeyedStateSnapshotStats:
    """Statistics of a written snapshot: number of entries, and size of the file."""

    entries: int
    bytes: int


class KeyedStateSnapshot(ABC):
    """A frozen view of the last flushed epoch, writable from any thread. It must always be released by `release`."""

    @abstractmethod
    def write_canonical(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        """Write the view as a canonical file. The caller opens and closes the sink.

        Raises:
            SnapshotError: The snapshot was released before or meanwhile, or an entry can't be written.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the view; an active writer stops with an error. Idempotent and thread-safe."""


def canonical_header(
    context: InternalKeyContext, configuration: Configuration, states: Iterable[StateMetaInfoSnapshot]
) -> CanonicalHeader:
    """Return the header of a canonical file of a backend."""
    return CanonicalHeader(
        key_type=context.key_codec.key_type,
        key_encoding=KEY_ENCODING,
        max_parallelism=context.max_parallelism,
        key_group_range=context.key_group_range,
        states=tuple(states),
        compression=snapshot_codec(configuration),
    )


class CountedSnapshot(KeyedStateSnapshot):
    """The base of the backends' snapshots.

    Args:
        header: The header of the file to be written.
        filters: State name -> filter of expired values; states without one are written completely.
    """

    def __init__(self, header: CanonicalHeader, filters: Mapping[str, EntryFilter]) -> None:
        self._header = header
        self._filters = filters
        self._only: Mapping[int, Set[bytes]] | None = None
        self._lock = threading.Lock()
        self._writers = 0
        self._released = False

    def restrict(self, keys: Mapping[int, Set[bytes]]) -> None:
        """Write the entries and timers of some keys only.

        Args:
            keys: The bytes of the keys, by key group.
        """
        self._only = keys

    @property
    def _key_groups(self) -> Sequence[int]:
        """The key groups to be written, in order."""
        groups = self._header.key_group_range
        return range(groups.start, groups.end + 1) if self._only is None else sorted(self._only)

    @abstractmethod
    def _write(self, writer: CanonicalWriter) -> None:
        """Write all entries, calling `_check_open` at least once per key group."""

    def _write_file(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        """Write the file."""
        writer = CanonicalWriter(sink, self._header)
        self._write(writer)
        writer.finish()
        return KeyedStateSnapshotStats(entries=writer.entries, bytes=writer.bytes)

    def _write_entries(self, writer: CanonicalWriter, name: str, key_group: int, entries: Iterable[Entry]) -> None:
        if self._only is not None:
            wanted = self._only[key_group]
            entries = (entry for entry in entries if entry[0] in wanted)
        keep = self._filters.get(name)
        writer.write(name, key_group, entries if keep is None else keep(entries))

    def _is_filtered(self, name: str) -> bool:
        return name in self._filters or self._only is not None

    @abstractmethod
    def _let_go(self) -> None:
        """Free the view. Called once, on any thread."""

    @override
    def write_canonical(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        with self._lock:
            self._check_open()
            self._writers += 1
        try:
            return self._write_file(sink)
        finally:
            with self._lock:
                self._writers -= 1
                last = self._released and self._writers == 0
            if last:
                self._let_go()

    def _check_open(self) -> None:
        if self._released:
            message = "The snapshot was released before it was written."
            raise SnapshotError(message)

    @override
    def release(self) -> None:
        with self._lock:
            if self._released:
                return
            self._released = True
            busy = self._writers > 0
        if not busy:
            self._let_go()


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

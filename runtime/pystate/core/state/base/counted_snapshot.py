"""A snapshot that counts its writers, so that its view is freed exactly once, after the last one."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from pystate.common.errors import SnapshotError
from pystate.common.overrides import override
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot, KeyedStateSnapshotStats
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, Entry
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter


class CountedSnapshot(KeyedStateSnapshot):
    """The base of the backends' snapshots.

    Args:
        header: The header of the file to be written.
        filters: State name -> filter of expired values; states without one are written completely.
    """

    def __init__(self, header: CanonicalHeader, filters: Mapping[str, EntryFilter]) -> None:
        self._header = header
        self._filters = filters
        self._lock = threading.Lock()
        self._writers = 0
        self._released = False

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
        keep = self._filters.get(name)
        writer.write(name, key_group, entries if keep is None else keep(entries))

    def _is_filtered(self, name: str) -> bool:
        return name in self._filters

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

"""A snapshot of the hashmap backend: frozen table views, written as a canonical file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

from pystate.common.errors import SnapshotError
from pystate.state.base.backend import VOID_NAMESPACE, KeyedStateSnapshot, KeyedStateSnapshotStats
from pystate.state.base.canonical import CanonicalHeader, CanonicalWriter, Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.base.serializers import TypeSerializer
from pystate.state.hashmap.table import TableView


class HashMapSnapshot(KeyedStateSnapshot):
    """Frozen views of all states.

    Args:
        header: Of the file to be written.
        key_codec: Of the backend.
        views: State name -> (view, serializer).
        on_release: Called once, when the views are no longer read.
    """

    def __init__(
        self,
        header: CanonicalHeader,
        key_codec: KeyCodec,
        views: dict[str, tuple[TableView, TypeSerializer]],
        on_release: Callable[[HashMapSnapshot], None],
    ) -> None:
        self._header = header
        self._codec = key_codec
        self._views = views
        self._on_release = on_release
        self._lock = threading.Lock()
        self._writers = 0
        self._released = False

    def write_canonical(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        """Write the frozen views."""
        with self._lock:
            self._check_open()
            self._writers += 1
        try:
            writer = CanonicalWriter(sink, self._header)
            groups = self._header.key_group_range
            for key_group in range(groups.start, groups.end + 1):
                for name, (view, serializer) in self._views.items():
                    self._check_open()
                    writer.write(name, key_group, self._entries(view, serializer, key_group))
            writer.finish()
            return KeyedStateSnapshotStats(entries=writer.entries, bytes=writer.bytes)
        finally:
            with self._lock:
                self._writers -= 1
                last = self._released and self._writers == 0
            if last:
                self._let_go()

    def _entries(self, view: TableView, serializer: TypeSerializer, key_group: int) -> Iterator[Entry]:
        encode = self._codec.encode
        if serializer.immutable:
            serialize = serializer.serialize
            for key, stored in view.entries(key_group):
                yield encode(key), VOID_NAMESPACE, serialize(stored)
        else:
            for key, stored in view.entries(key_group):
                yield encode(key), VOID_NAMESPACE, stored

    def _check_open(self) -> None:
        if self._released:
            message = "The snapshot was released before it was written."
            raise SnapshotError(message)

    def release(self) -> None:
        """Give the views up; a writer at work keeps them until it notices."""
        with self._lock:
            if self._released:
                return
            self._released = True
            busy = self._writers > 0
        if not busy:
            self._let_go()

    def _let_go(self) -> None:
        self._views = {}
        self._on_release(self)

"""A snapshot of the hashmap backend: frozen table views, written as a canonical file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pystate.state.base.backend import VOID_NAMESPACE
from pystate.state.base.canonical import CanonicalHeader, CanonicalWriter, Entry
from pystate.state.base.counted_snapshot import CountedSnapshot
from pystate.state.base.keys import KeyCodec
from pystate.state.base.serializers import TypeSerializer
from pystate.state.hashmap.table import TableView


class HashMapSnapshot(CountedSnapshot):
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
        super().__init__(header)
        self._codec = key_codec
        self._views = views
        self._on_release = on_release

    def _write(self, writer: CanonicalWriter) -> None:
        groups = self._header.key_group_range
        for key_group in range(groups.start, groups.end + 1):
            for name, (view, serializer) in self._views.items():
                self._check_open()
                writer.write(name, key_group, self._entries(view, serializer, key_group))

    def _entries(self, view: TableView, serializer: TypeSerializer, key_group: int) -> Iterator[Entry]:
        encode = self._codec.encode
        if serializer.immutable:
            serialize = serializer.serialize
            for key, stored in view.entries(key_group):
                yield encode(key), VOID_NAMESPACE, serialize(stored)
        else:
            for key, stored in view.entries(key_group):
                yield encode(key), VOID_NAMESPACE, stored

    def _let_go(self) -> None:
        self._views = {}
        self._on_release(self)

"""A snapshot of the hashmap backend: frozen table views, written as a canonical file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pystate.common.overrides import override
from pystate.core.state.base.counted_snapshot import CountedSnapshot
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, Entry
from pystate.core.state.hashmap.forms import TableForm
from pystate.core.state.hashmap.hashmap_table import TableView
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter

RawEntries = dict[int, list[Entry]]
"""Key group -> entries as they were restored; nobody changes them."""


class HashMapSnapshot(CountedSnapshot):
    """Frozen views of all states.

    Args:
        header: The header of the file to be written.
        views: State name -> (view, form), or the raw entries of a state that wasn't declared.
        filters: State name -> filter of expired values.
        on_release: Called once, when the views are no longer read.
    """

    def __init__(
        self,
        header: CanonicalHeader,
        views: dict[str, tuple[TableView, TableForm] | RawEntries],
        filters: Mapping[str, EntryFilter],
        on_release: Callable[[HashMapSnapshot], None],
    ) -> None:
        super().__init__(header, filters)
        self._views = views
        self._on_release = on_release

    @override
    def _write(self, writer: CanonicalWriter) -> None:
        groups = self._header.key_group_range
        for key_group in range(groups.start, groups.end + 1):
            for name, view in self._views.items():
                self._check_open()
                if isinstance(view, dict):
                    self._write_entries(writer, name, key_group, view.get(key_group, ()))
                elif self._is_filtered(name):
                    self._write_entries(writer, name, key_group, view[1].entries(view[0].entries(key_group)))
                else:
                    pieces = view[1].pieces(*view[0].columns(key_group), writer.piece_size)
                    writer.write_pieces(name, key_group, pieces)

    def _let_go(self) -> None:
        self._views = {}
        self._on_release(self)

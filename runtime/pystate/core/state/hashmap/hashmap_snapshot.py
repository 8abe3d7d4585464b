"""A snapshot of the hashmap backend: frozen table views, written as a canonical file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

from pystate.common.overrides import override
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshotStats
from pystate.core.state.base.counted_snapshot import CountedSnapshot
from pystate.core.state.base.forked_writer import ForkedWriter
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, Entry
from pystate.core.state.hashmap.forms import TableForm
from pystate.core.state.hashmap.hashmap_table import TableView
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter

RawEntries = dict[int, list[Entry]]
"""Key group -> entries as they were restored; nobody changes them."""

WORTH_A_FORK = 20_000
"""Entries. To fork takes some milliseconds in which no record is processed; fewer are written in that time."""


class HashMapSnapshot(CountedSnapshot):
    """Frozen views of all states.

    Args:
        header: Of the file to be written.
        views: State name -> (view, form), or the raw entries of a state that wasn't declared.
        filters: State name -> what leaves expired values out.
        on_release: Called once, when the views are no longer read.
        forks: Lets copies of the process write; None to write beside the records.
    """

    def __init__(
        self,
        header: CanonicalHeader,
        views: dict[str, tuple[TableView, TableForm] | RawEntries],
        filters: Mapping[str, EntryFilter],
        on_release: Callable[[HashMapSnapshot], None],
        forks: ForkedWriter | None = None,
    ) -> None:
        super().__init__(header, filters)
        self._forks = forks
        self._views = views
        self._on_release = on_release

    @override
    def _write_file(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        forks = self._forks
        # what leaves expired values out may be asked afterwards how many those were
        if forks is not None and not self._filters and self._entries() >= WORTH_A_FORK and forks.can_write():
            numbers = forks.write(self._write_there, sink, self._check_open)
            if numbers is not None:
                return KeyedStateSnapshotStats(bytes=numbers[0], entries=numbers[1])
        return super()._write_file(sink)

    def _write_there(self, sink: BinaryIO) -> list[int]:
        stats = super()._write_file(sink)
        return [stats.bytes, stats.entries]

    def _entries(self) -> int:
        """Return about how many entries there are."""
        views = self._views.values()
        return sum(sum(map(len, view.values())) if isinstance(view, dict) else view[0].stored for view in views)

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

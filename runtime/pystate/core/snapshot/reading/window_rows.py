"""Reads the contents of windows that aren't stored under themselves: of merged windows, and of those that share panes.

The contents of a merged window are stored under one of the original windows, which another state records: a map from the
windows of a key to those that store their contents. See `docs/snapshot-format.md`.

Until it fires, a window that shares panes contains what its panes contain. The timer of a pane determines which of its
windows have fired: it is due when the next one fires. There may also be windows with their own contents, from before panes
were shared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pystate.core.snapshot.reading.snapshot_reader import KeyFilter, SnapshotReader, rows_of
from pystate.core.snapshot.reading.state_rows import PartDecoders, StateRow
from pystate.core.snapshot.reading.window_states import MERGING_WINDOW_SET, WINDOW_CONTENTS, WINDOW_TIMERS_STATE, PaneState
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.namespaces import TIME_WINDOWS
from pystate.core.state.values.serializers import serializer_for


def merged_rows(snapshot: SnapshotReader, uid: str, keys: Collection[Any] | None = None) -> Iterator[StateRow]:
    """Iterate over the contents of an operator's windows, each in the namespace of its window.

    The window mapping of one key group is held in memory.

    Args:
        snapshot: The snapshot.
        uid: The operator with merging windows.
        keys: The keys to read.

    Raises:
        SnapshotError: There are none, or a file is damaged.
    """
    operator = snapshot.operator(uid)
    states = [snapshot.keyed_state(uid, name) for name in (WINDOW_CONTENTS, MERGING_WINDOW_SET)]
    contents, pairs = (PartDecoders(state.parts, state.key_type) for state in states)
    wanted = None if keys is None else KeyFilter.of(keys, contents.common.key_type, operator.max_parallelism)
    for reader, groups in snapshot.keyed_readers(operator, wanted):
        for group in groups:
            found = rows_of(reader, MERGING_WINDOW_SET, pairs, [group], wanted)
            windows = {(pair.key_bytes, pair.value): pair.sub_key for pair in found}
            for row in rows_of(reader, WINDOW_CONTENTS, contents, [group], wanted):
                yield row._replace(namespace=windows.get((row.key_bytes, row.namespace), row.namespace))


class PaneRows:
    """Reads the windows of one operator, whose windows share panes.

    Args:
        snapshot: The snapshot.
        uid: The operator.

    Attributes:
        decoder: The decoder of the rows.
    """

    def __init__(self, snapshot: SnapshotReader, uid: str) -> None:
        states = {state.name: PartDecoders(state.parts, state.key_type) for state in snapshot.described_states(uid)}
        self._panes = [(panes, name) for name in states if (panes := PaneState.of(name)) is not None]
        self._states = states
        self.decoder = states[self._panes[0][1]].common

    def rows(self, reader: CanonicalReader, group: int, wanted: KeyFilter | None = None) -> Iterator[StateRow]:
        """Iterate over the non-empty windows of a key group, which are held in memory."""
        timers = self._rows(reader, WINDOW_TIMERS_STATE, group, wanted)
        due = {(row.key_bytes, row.namespace): row.value for row in timers}
        found = {(row.key_bytes, row.namespace): row for row in self._rows(reader, WINDOW_CONTENTS, group, wanted)}
        serialize = serializer_for(self.decoder.value_type).serialize
        for panes, name in self._panes:
            for row in self._rows(reader, name, group, wanted):
                at = due.get((row.key_bytes, row.namespace))
                for window in () if at is None else panes.windows(row.namespace[0], at):
                    before = found.get((row.key_bytes, window))
                    value = row.value if before is None else panes.merge(before.value, row.value)
                    found[row.key_bytes, window] = row._replace(
                        namespace=window,
                        namespace_bytes=TIME_WINDOWS.encode(window),
                        value=value,
                        value_bytes=serialize(value),
                    )
        return iter(found.values())

    def _rows(self, reader: CanonicalReader, name: str, group: int, wanted: KeyFilter | None) -> Iterator[StateRow]:
        decoders = self._states.get(name)
        return iter(()) if decoders is None else rows_of(reader, name, decoders, [group], wanted)


def shares_panes(names: Iterable[str]) -> bool:
    """Return whether an operator has a state of panes, by the names of its states."""
    return any(PaneState.of(name) is not None for name in names)


def windows_of_panes(snapshot: SnapshotReader, uid: str, keys: Collection[Any] | None = None) -> Iterator[StateRow]:
    """Iterate over the windows of an operator that share panes, each with its content.

    Args:
        snapshot: The snapshot.
        uid: The operator.
        keys: Only these.

    Raises:
        SnapshotError: A file is damaged.
    """
    windows = PaneRows(snapshot, uid)
    operator = snapshot.operator(uid)
    wanted = None if keys is None else KeyFilter.of(keys, windows.decoder.key_type, operator.max_parallelism)
    for reader, groups in snapshot.keyed_readers(operator, wanted):
        for group in groups:
            yield from windows.rows(reader, group, wanted)

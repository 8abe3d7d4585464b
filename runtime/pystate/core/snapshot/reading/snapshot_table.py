"""One state of a snapshot, of any kind, as a table of rows for the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pystate.common.configuration.option_types import nearest_name
from pystate.common.errors import SnapshotError, UsageError
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateKind
from pystate.core.snapshot.reading.key_text import parse_key
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.reading.state_rows import PartDecoders, RowDecoder, value_decoder
from pystate.core.snapshot.reading.window_rows import PaneRows, merged_rows, shares_panes, windows_of_panes
from pystate.core.snapshot.reading.window_states import MERGING_WINDOW_SET, WINDOW_CONTENTS
from pystate.core.state.formats.type_format import pack
from pystate.core.state.operator.format import OperatorStateMode

_PLACES: dict[StateKind, tuple[str, ...]] = {StateKind.LIST: ("index",), StateKind.MAP: ("map_key",)}


@dataclass(frozen=True)
class KeyedSelection:
    """A keyed state: `rows` are `StateRow`s."""

    decoder: RowDecoder
    rows: Iterator[Any]


@dataclass(frozen=True)
class ListSelection:
    """A list or union state: `rows` are (subtask, element, its bytes)."""

    type_info: TypeInformation | None
    rows: Iterator[Any]


@dataclass(frozen=True)
class BroadcastSelection:
    """A broadcast state: `rows` are (map key, its bytes, value, its bytes)."""

    key_type: TypeInformation | None
    type_info: TypeInformation | None
    rows: Iterator[Any]


Selection = KeyedSelection | ListSelection | BroadcastSelection


@dataclass(frozen=True)
class SnapshotTable:
    """The rows of a state.

    Attributes:
        columns: The column names.
        rows: The rows, read lazily: each a value, a list element or a map entry.
    """

    columns: Sequence[str]
    rows: Iterator[Sequence[Any]]


def select_state(reader: SnapshotReader, uid: str, name: str, key: str | None = None) -> Selection:
    """Select a state.

    Args:
        reader: The snapshot.
        uid: The operator.
        name: The state; also `window-contents` for windows that share panes.
        key: The key to select, as text: of keyed state; the map key of broadcast state.

    Raises:
        SnapshotError: There is no such operator or state, or a file is damaged.
        UsageError: The text isn't a key, or the state has no keys.
    """
    keyed = {state.name: state for state in reader.described_states(uid)}
    if name == WINDOW_CONTENTS and shares_panes(keyed):
        panes = PaneRows(reader, uid)
        wanted = None if key is None else [parse_key(key, panes.decoder.key_type)]
        return KeyedSelection(panes.decoder, windows_of_panes(reader, uid, wanted))
    if name in keyed:
        state = keyed[name]
        wanted = None if key is None else [parse_key(key, state.key_type)]
        decoder = PartDecoders(state.parts, state.key_type).common
        if name == WINDOW_CONTENTS and MERGING_WINDOW_SET in keyed:
            return KeyedSelection(decoder, merged_rows(reader, uid, wanted))
        return KeyedSelection(decoder, reader.keyed_rows(uid, name, keys=wanted))
    others = {other.name: other for other in reader.operator_state.states(uid)}
    if name not in others:
        known = [*keyed, *others]
        near = nearest_name(name, known)
        message = f"The operator {uid!r} has no state {name!r}; it has: {', '.join(map(repr, known)) or 'none'}."
        hint = None if near is None else f"did you mean {near!r}?"
        raise SnapshotError(message, where=reader.location.uri, hint=hint)
    found = others[name]
    value_type, _ = value_decoder(found.serializer, None, name)
    if found.mode is OperatorStateMode.BROADCAST:
        key_type, codec = reader.operator_state.broadcast_keys(found, None)
        data = None if key is None else codec.encode(codec.internal(parse_key(key, key_type)))
        nil = pack(None)
        rows = (
            (map_key, map_key_bytes, value, nil if stored is None else stored)
            for map_key, map_key_bytes, value, stored in reader.operator_state.broadcast_entries(uid, name)
            if data is None or map_key_bytes == data
        )
        return BroadcastSelection(key_type, value_type, rows)
    if key is not None:
        message = f"State {name!r} of operator {uid!r} is {found.mode.value}: it has no keys."
        raise UsageError(message, hint="leave --key out")
    return ListSelection(value_type, reader.operator_state.list_elements(uid, name))


def state_table(selection: Selection) -> SnapshotTable:
    """Return a state's rows for display."""
    if isinstance(selection, BroadcastSelection):
        return SnapshotTable(("map_key", "value"), ((key, value) for key, _, value, _ in selection.rows))
    if isinstance(selection, ListSelection):
        return SnapshotTable(("subtask", "value"), ((subtask, value) for subtask, value, _ in selection.rows))
    decoder = selection.decoder
    place, timed, is_void = _PLACES.get(decoder.kind, ()), decoder.has_timestamps, decoder.namespaces.is_void

    def cells() -> Iterator[Sequence[Any]]:
        for row in selection.rows:
            where = [*([] if is_void else [row.namespace]), *([row.sub_key] if place else [])]
            found = [row.key, row.key_group, *where, row.value]
            yield [*found, row.timestamp] if timed else found

    where = (*(() if is_void else ("namespace",)), *place)
    return SnapshotTable(("key", "key_group", *where, "value", *(("ttl_timestamp",) if timed else ())), cells())

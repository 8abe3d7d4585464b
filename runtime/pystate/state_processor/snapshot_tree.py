"""A savepoint or checkpoint as a tree for people: its operators, their states, and how large they are."""

from __future__ import annotations

from datetime import datetime, timezone

from pystate.common.text.figures import UNKNOWN, format_count, format_size
from pystate.common.text.html_view import html_table, html_text
from pystate.core.snapshot.reading.inspection import OperatorFigures, StateFigures, inspect_operators
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader


class SnapshotTree:
    """The tree of one snapshot, from headers and indexes of its files; no entries are read.

    Args:
        snapshot: The snapshot.

    Raises:
        SnapshotError: A file is missing or damaged.
    """

    def __init__(self, snapshot: SnapshotReader) -> None:
        of = snapshot.metadata
        taken = datetime.fromtimestamp(of.timestamp_ms / 1000, timezone.utc)
        kind = of.checkpoint_type.value.capitalize()
        self._title = (
            f"{kind} {of.checkpoint_id} of {of.job_name!r}, {taken:%Y-%m-%d %H:%M:%S} UTC, {format_size(of.state_size)}"
        )
        self._uri = snapshot.location.uri
        self._operators = inspect_operators(snapshot.location, of)

    def html(self) -> str:
        """Return the tree as HTML, whose operators can be opened and closed."""
        parts = [f"<div><b>{html_text(self._title)}</b><br><small>{html_text(self._uri)}</small></div>"]
        for operator in self._operators:
            table = html_table(("state", "kind", "type", "entries", "size"), map(_cells, operator.states))
            parts.append(f"<details open><summary>{html_text(_line(operator))}</summary>{table}</details>")
        return "".join(parts)

    def text(self) -> str:
        """Return the tree as text."""
        lines = [self._title, self._uri]
        for operator in self._operators:
            lines.append(f"|-- {_line(operator)}")
            for state in operator.states:
                name, kind, types, entries, size = _cells(state)
                lines.append(f"|   |-- {name}  {kind} {types}  {entries} entries, {size}")
        return "\n".join(lines)


def _line(operator: OperatorFigures) -> str:
    keys = "" if operator.key_type is None else f", keys {operator.key_type}"
    named = operator.uid if operator.name == operator.uid else f"{operator.uid} ({operator.name})"
    return f"{named}: parallelism {operator.parallelism}{keys}, {format_size(operator.size)}"


def _cells(state: StateFigures) -> tuple[str, ...]:
    return state.name or UNKNOWN, state.kind, state.type, format_count(state.entries), format_size(state.size)

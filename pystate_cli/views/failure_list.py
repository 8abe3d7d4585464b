"""The last failures of a job."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.client.failures import failure_of
from pystate_cli.console.formats import format_iso, format_moment, printable
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, layouts
from pystate_cli.tables.plain_columns import plain_table
from pystate_cli.views.measured import moment_cell

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    Column("attempt", "Attempt", "Try"),
    Column("when", "When"),
    Column("class", "Class", left=True),
    Column("message", "Failure", left=True, least=30, most=1000, wraps=True),
)
_MESSAGE_LINES = 8
_MESSAGE_CHARACTERS = 600
_PLAIN_COLUMNS = (("attempt", 7), ("when", 29), ("class", 24), ("failure", 0))


@dataclass(frozen=True)
class FailureRow:
    """One failure. `place` and `hint` are what the user can do with it; `attempt` is None where it is not known."""

    attempt: int | None
    timestamp: int
    name: str
    message: str
    place: str | None
    hint: str | None
    stack_trace: str

    @staticmethod
    def of(entry: Mapping[str, Any], job_id: str) -> FailureRow:
        """Read an entry of GET /jobs/:id/exceptions."""
        ours = entry.get("pystate")
        cause = {"class": entry["exceptionName"], "stack-trace": entry["stacktrace"], "pystate": ours}
        error = failure_of(cause)
        return FailureRow(
            attempt=ours.get("attempt") if isinstance(ours, dict) else None,
            timestamp=entry["timestamp"],
            name=printable(str(entry["exceptionName"])),
            message=shortened("\n".join(_harmless(error.message))),
            place=None
            if error.where in (None, f"job {job_id}")
            else "\n".join(line.strip() for line in _harmless(error.where or "")),
            hint=None if error.hint is None else printable(error.hint),
            stack_trace=str(entry["stacktrace"]),
        )

    @property
    def shown_attempt(self) -> str:
        """The attempt for people."""
        return "-" if self.attempt is None else str(self.attempt)


def plain_lines(rows: Sequence[FailureRow]) -> list[str]:
    """Return a header and a line per failure, for programs."""
    return plain_table(
        _PLAIN_COLUMNS,
        ([row.shown_attempt, format_iso(row.timestamp), row.name, printable(row.message)] for row in rows),
    )


def trace_lines(row: FailureRow, now: int | None = None) -> list[str]:
    """Return the stack trace of a failure below a line that says of which."""
    now = int(time.time() * 1000) if now is None else now
    title = f"attempt {row.shown_attempt}, {format_moment(row.timestamp, now)}:"
    return ["", title, *(f"  {line}" for line in _harmless(row.stack_trace))]


def hint_lines(rows: Sequence[FailureRow]) -> list[str]:
    """Return what can be done about the failures, each once."""
    return [f"try: {hint}" for hint in dict.fromkeys(row.hint for row in rows) if hint]


def shortened(message: str) -> str:
    """Return the beginning of a message that would fill the screen; a stack trace ends with all that was kept of it."""
    lines = message.splitlines()
    short = "\n".join(lines[:_MESSAGE_LINES])[:_MESSAGE_CHARACTERS]
    return message if len(short) == len(message) else f"{short} ... (-v shows more)"


def _harmless(text: str) -> list[str]:
    """Return the lines of a text without what would steer a terminal."""
    return ["".join(c if c.isprintable() or c == "\t" else "?" for c in line) for line in text.splitlines()]


def table(rows: Sequence[FailureRow], width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width; long messages go on in the next line."""
    now = int(time.time() * 1000) if now is None else now

    def line(row: FailureRow, layout: Layout) -> Line:
        cells = {
            "attempt": row.shown_attempt,
            "when": moment_cell(row.timestamp, layout, now),
            "class": row.name,
            "message": row.message if row.place is None else f"{row.message}\nat: {row.place}",
        }
        return Line(cells, {"class": "red"})

    return fitted_table(
        layouts(_COLUMNS, dropped=("class",)), lambda layout: [line(row, layout) for row in rows], width, unicode=unicode
    )

"""The last failures of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystate.common.text.figures import format_moment
from pystate.common.time import current_time_ms
from pystate.runtime.rest.job_detail_messages import RootExceptionInfo
from pystate_cli.client.program_end import exception_of
from pystate_cli.console.formats import printable
from pystate_cli.console.word_wrap import wrapped
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import INSTANT, NUMBER, TEXT
from pystate_cli.tables.table_spec import TableSpec

if TYPE_CHECKING:
    from rich.text import Text

_INDENT = "  "
_MESSAGE_LINES = 8
_MESSAGE_CHARACTERS = 600


@dataclass(frozen=True)
class FailureRow:
    """One failure. `place` and `hint` help the user to act."""

    attempt: int
    timestamp: int
    name: str
    message: str
    place: str | None
    hint: str | None
    stack_trace: str

    @staticmethod
    def of(entry: RootExceptionInfo, job_id: str) -> FailureRow:
        """Read an entry of GET /jobs/:id/exceptions."""
        error = exception_of(entry)
        return FailureRow(
            attempt=entry.pystate.attempt,
            timestamp=entry.timestamp,
            name=printable(entry.exception_name),
            message=shortened("\n".join(_harmless(error.message))),
            place=None
            if error.where in (None, f"job {job_id}")
            else "\n".join(line.strip() for line in _harmless(error.where or "")),
            hint=None if error.hint is None else printable(error.hint),
            stack_trace=entry.stacktrace,
        )

    @property
    def told(self) -> str:
        """The error and its place."""
        return self.message if self.place is None else f"{self.message}\nat: {self.place}"


def trace_lines(row: FailureRow, now: int | None = None) -> list[str]:
    """Return the stack trace of a failure below a heading."""
    now = current_time_ms() if now is None else now
    title = f"attempt {row.attempt}, {format_moment(row.timestamp, now)}:"
    return ["", title, *(f"  {line}" for line in _harmless(row.stack_trace))]


def hint_lines(rows: Sequence[FailureRow]) -> list[str]:
    """Return the hints of the failures, without duplicates."""
    return [f"try: {hint}" for hint in dict.fromkeys(row.hint for row in rows) if hint]


def shortened(message: str) -> str:
    """Return the beginning of a very long message; a stack trace has its full kept length."""
    lines = message.splitlines()
    short = "\n".join(lines[:_MESSAGE_LINES])[:_MESSAGE_CHARACTERS]
    return message if len(short) == len(message) else f"{short} ... (-v shows more)"


def _harmless(text: str) -> list[str]:
    """Return the lines of a text without control characters."""
    return ["".join(c if c.isprintable() or c == "\t" else "?" for c in line) for line in text.splitlines()]


FAILURES: TableSpec[FailureRow] = TableSpec(
    (
        Column("attempt", lambda row: row.attempt, NUMBER, plain="attempt", width=7, json="pystate.attempt"),
        Column("when", lambda row: row.timestamp, INSTANT, plain="when", width=29, json="timestamp"),
        Column("class", lambda row: row.name, TEXT, plain="class", width=24, json="exceptionName"),
        Column("failure", lambda row: row.told, TEXT, plain="failure"),
    )
)  # fmt: skip
"""`pystate exceptions JOBID` in a pipe; JSON is an entry of `exceptionHistory.entries`."""


def failure_lines(rows: Sequence[FailureRow], width: int, now: int | None = None) -> Iterator[Text]:
    """Yield the failures for a terminal; paths in them are never broken.

    Args:
        rows: The failures.
        width: Columns of the terminal.
        now: Milliseconds since 1970; None for now.
    """
    from rich.text import Text

    now = current_time_ms() if now is None else now
    for number, row in enumerate(rows):
        if number:
            yield Text()
        head = Text(f"attempt {row.attempt}", style="bold")
        head.append(f"  {format_moment(row.timestamp, now)}  ", style="not bold dim")
        yield head.append(row.name, style="not bold red")
        for line in row.message.splitlines():
            for part in wrapped(_INDENT + line, width, _INDENT):
                yield Text(part)
        for place, line in enumerate((row.place or "").splitlines()):
            yield Text(f"{_INDENT}{'at: ' if place == 0 else '    '}{line}", style="dim")

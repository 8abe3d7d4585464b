"""The list of savepoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pystate.common.text.figures import UNKNOWN
from pystate_cli.console.formats import printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.facts import labelled
from pystate_cli.tables.kinds import INSTANT, LIST, NUMBER, SIZE, TEXT
from pystate_cli.tables.table_spec import TableSpec
from pystate_cli.views.snapshots.checkpoint_list import SHORT_KINDS

if TYPE_CHECKING:
    from pystate.ops.catalog.listing import Catalog, DamagedSnapshot
    from pystate.ops.catalog.snapshot_summary import SnapshotSummary

_LEAST_DIGITS = 6


@dataclass(frozen=True)
class SavepointRow:
    """A snapshot, possibly a damaged one; `abbreviations` are those of all ids of the list."""

    kind: str
    path: str
    message: str | None
    snapshot_id: str | None = None
    taken: int | None = None
    size: int | None = None
    format: str | None = None
    parallelism: int | None = None
    parent: str | None = None
    job_id: str | None = None
    job_name: str | None = None
    operators: Sequence[str] = ()
    abbreviations: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(one: SnapshotSummary, short: Mapping[str, str]) -> SavepointRow:
        """Return the row of a snapshot."""
        return SavepointRow(
            one.kind,
            one.uri,
            one.message,
            one.snapshot_id,
            one.timestamp_ms,
            one.size,
            one.format,
            one.parallelism,
            # there is one, but its id is unknown
            "?" if one.parent_id is None and one.parent is not None else one.parent_id,
            one.job_id,
            one.job_name,
            one.operators,
            short,
        )

    @staticmethod
    def of_damaged(one: DamagedSnapshot) -> SavepointRow:
        """Return the row of a damaged snapshot, with the reason as its message."""
        return SavepointRow("damaged", one.uri, one.problem)

    def abbreviated(self, name: str | None) -> str:
        """Return the first digits of an id."""
        return UNKNOWN if name is None else self.abbreviations.get(name, name)


SAVEPOINTS: TableSpec[SavepointRow] = TableSpec(
    (
        Column(
            "id", lambda row: row.snapshot_id, TEXT, "ID", plain="id", json="id",
            shown=lambda row, _: row.abbreviated(row.snapshot_id), style=lambda _: "yellow",
        ),
        Column(
            "kind", lambda row: row.kind, TEXT, "Kind", plain="kind", json="kind", priority=2,
            shown=lambda row, look: SHORT_KINDS[row.kind] if look.brief else row.kind,
            style=lambda row: "cyan" if row.kind == "savepoint" else "",
        ),
        Column("taken", lambda row: row.taken, INSTANT, "Taken", plain="taken", json="timestamp"),
        Column("job_id", lambda row: row.job_id, TEXT, plain="job_id", json="jobId"),
        Column(
            "job", lambda row: row.job_name, TEXT, "Job", plain="job", json="jobName", least=8, most=32, priority=5,
            shown=lambda row, _: printable(row.job_name or ""),
        ),
        Column(
            "parent", lambda row: row.parent, TEXT, "Parent", plain="parent", priority=4,
            shown=lambda row, _: row.abbreviated(row.parent), style=lambda _: "dim",
        ),
        Column("size", lambda row: row.size, SIZE, "Size", plain="size_bytes", json="size"),
        Column(
            "format", lambda row: row.format, TEXT, "Format", plain="format", json="format", priority=1,
            shown=lambda row, _: (row.format or UNKNOWN).lower(),
        ),
        Column(
            "parallelism", lambda row: row.parallelism, NUMBER, "Parallelism", "Par",
            plain="parallelism", json="parallelism", priority=3,
        ),
        Column(
            "operators", lambda row: row.operators, LIST, "Operators", plain="operators", json="operators",
            least=8, most=40, wide_only=True,
        ),
        Column("path", lambda row: row.path, TEXT, plain="path", json="path"),
        Column(
            "message", lambda row: row.message, TEXT, "Message", plain="message", json="message", least=12, most=80,
            shown=lambda row, _: printable(row.message or ""),
        ),
    ),
    plain_order=(
        "id", "kind", "taken", "size", "format", "parallelism", "parent", "job_id", "job", "operators", "path", "message",
    ),
)  # fmt: skip
"""`pystate savepoints list`; JSON is an entry of `savepoints`."""


def abbreviations(ids: Iterable[str]) -> dict[str, str]:
    """Return for each id its shortest unique prefix of at least 6 digits."""
    ids = set(ids)
    found = {}
    for one in ids:
        length = len(one) if "-" in one else _LEAST_DIGITS
        while length < len(one) and any(other != one and other.startswith(one[:length]) for other in ids):
            length += 1
        found[one] = one[:length]
    return found


def savepoint_rows(snapshots: Sequence[SnapshotSummary]) -> list[SavepointRow]:
    """Return a row per snapshot."""
    short = abbreviations(name for one in snapshots for name in (one.snapshot_id, one.parent_id) if name is not None)
    return [SavepointRow.of(one, short) for one in snapshots]


def spec_for(rows: Sequence[SavepointRow], *, kinds: bool) -> TableSpec[SavepointRow]:
    """Return the table for a terminal, without empty columns and columns with equal values.

    Args:
        rows: The rows.
        kinds: Whether there may be checkpoints among the rows.
    """
    said = any(row.message for row in rows)
    return SAVEPOINTS.without(*([] if kinds else ["kind"]), *([] if said else ["message"]))


def damaged_lines(damaged: Sequence[DamagedSnapshot], width: int) -> list[str]:
    """Return the damaged snapshots and the reasons: path and problem side by side if there is room."""
    return labelled([(one.uri, printable(one.problem)) for one in damaged], width)


def summary_line(catalog: Catalog, directories: Sequence[str]) -> str:
    """Return the counts in a sentence."""
    savepoints = sum(one.is_savepoint for one in catalog.snapshots)
    checkpoints = len(catalog.snapshots) - savepoints
    parts = [_counted(savepoints, "savepoint")]
    if checkpoints:
        parts.append(_counted(checkpoints, "checkpoint"))
    if catalog.damaged:
        parts.append(f"{len(catalog.damaged)} damaged")
    where = f" in {' and '.join(directories)}" if directories else ""
    return f"{', '.join(parts)}{where}"


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def plain_lines(catalog: Catalog) -> list[str]:
    """Return a header and a line per snapshot for programs, damaged ones last."""
    return SAVEPOINTS.plain([*savepoint_rows(catalog.snapshots), *map(SavepointRow.of_damaged, catalog.damaged)])

"""The list of savepoints."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pystate_cli.console.formats import UNKNOWN, format_iso, format_size, printable
from pystate_cli.tables.facts import labelled
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, layouts
from pystate_cli.tables.plain_columns import plain_table
from pystate_cli.views.measured import moment_cell

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pystate.checkpoint.catalog.listing import Catalog, DamagedSnapshot
    from pystate.checkpoint.catalog.summary import SnapshotSummary

_LEAST_DIGITS = 6
_COLUMNS = (
    Column("id", "ID", left=True),
    Column("kind", "Kind", left=True),
    Column("when", "Taken"),
    Column("job", "Job", left=True, least=8, most=32),
    Column("parent", "Parent", left=True),
    Column("size", "Size"),
    Column("format", "Format", left=True),
    Column("parallelism", "Parallelism", "Par"),
    Column("operators", "Operators", left=True, least=8, most=40),
    Column("message", "Message", left=True, least=12, most=80),
)
_SHORT_KINDS = {"checkpoint": "chk", "savepoint": "save"}


def abbreviations(ids: Iterable[str]) -> dict[str, str]:
    """Return for each id the least number of its first digits, from 6 on, that tell it from all others."""
    ids = set(ids)
    found = {}
    for one in ids:
        length = len(one) if "-" in one else _LEAST_DIGITS
        while length < len(one) and any(other != one and other.startswith(one[:length]) for other in ids):
            length += 1
        found[one] = one[:length]
    return found


def table(
    snapshots: Sequence[SnapshotSummary], width: int, *, unicode: bool, kinds: bool = False, now: int | None = None
) -> RenderableType:
    """Return the table for a terminal of that width.

    Args:
        snapshots: The rows.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
        kinds: Whether there may be checkpoints among them.
        now: The time, ms since 1970.
    """
    now = int(time.time() * 1000) if now is None else now
    short = abbreviations(name for one in snapshots for name in (one.snapshot_id, one.parent_id) if name is not None)
    said = any(one.message for one in snapshots)
    columns = [column for column in _COLUMNS if (kinds or column.name != "kind") and (said or column.name != "message")]
    return fitted_table(
        layouts(columns, extra=("operators",), dropped=("operators", "format", "kind", "parallelism", "parent", "job")),
        lambda layout: [_line(one, short, layout, now) for one in snapshots],
        width,
        unicode=unicode,
    )


def _line(one: SnapshotSummary, short: dict[str, str], layout: Layout, now: int) -> Line:
    cells = {
        "id": short.get(one.snapshot_id or "", UNKNOWN),
        "kind": _SHORT_KINDS[one.kind] if layout.brief else one.kind,
        "when": moment_cell(one.timestamp_ms, layout, now),
        "job": printable(one.job_name),
        "parent": parent_text(one, short),
        "size": format_size(one.size),
        "format": one.format.lower(),
        "parallelism": str(one.parallelism),
        "operators": printable(", ".join(one.operators)),
        "message": printable(one.message or ""),
    }
    return Line(cells, {"id": "yellow", "parent": "dim", "kind": "cyan" if one.is_savepoint else ""})


def parent_text(one: SnapshotSummary, short: dict[str, str]) -> str:
    """Return the id of a snapshot's parent; a question mark where there is one whose id isn't known."""
    if one.parent_id is not None:
        return short.get(one.parent_id, one.parent_id)
    return UNKNOWN if one.parent is None else "?"


def damaged_lines(damaged: Sequence[DamagedSnapshot], width: int) -> list[str]:
    """Say what can't be read, and why: path and problem side by side where there is room for them."""
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
    """Return a header and a line per snapshot in columns of fixed width, for programs."""
    rows = [
        [
            one.snapshot_id or UNKNOWN,
            one.kind,
            format_iso(one.timestamp_ms),
            str(one.size),
            one.format,
            str(one.parallelism),
            one.parent_id or UNKNOWN,
            one.job_id,
            printable(one.job_name),
            printable(",".join(one.operators)) or UNKNOWN,
            one.uri,
            printable(one.message or UNKNOWN),
        ]
        for one in catalog.snapshots
    ]
    rows += [[UNKNOWN, "damaged", *[UNKNOWN] * 8, one.uri, printable(one.problem)] for one in catalog.damaged]
    names = ("id", "kind", "taken", "size_bytes", "format", "parallelism", "parent", "job_id", "job", "operators", "path")
    widths = [
        max(len(name), *(len(row[number]) for row in rows), 0) if rows else len(name) for number, name in enumerate(names)
    ]
    return plain_table([*zip(names, widths, strict=True), ("message", 0)], rows)

"""Rows of state as text: a table, JSON lines, CSV. They are written as they are read, a batch at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from pystate.common.json_text import json_text
from pystate_cli.console.json_keys import camel_case

Write = Callable[[str], None]

_BATCH = 1000
_SAMPLE = 200
_WIDEST = 48


class Rows(Protocol):
    """Rows of cells."""

    @property
    def columns(self) -> Sequence[str]:
        """Their names."""

    @property
    def rows(self) -> Iterator[Sequence[Any]]:
        """The rows."""


def cell_text(value: Any) -> str:
    """Return a cell for people: a text as it is, unless it would break the line; all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) and value.isprintable() else json_text(value)


def write_table(table: Rows, write: Write) -> int:
    """Write aligned columns, as wide as the first rows need them; return the number of rows."""
    rows = ([cell_text(cell) for cell in row] for row in table.rows)
    sample = list(islice(rows, _SAMPLE))
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(table.columns, *sample, strict=True)]
    widths[-1] = 0
    layout = "  ".join(f"%-{width}s" for width in widths)

    def line(cells: Sequence[str]) -> str:
        return f"{(layout % tuple(cells)).rstrip()}\n"

    write(line(table.columns))
    return _write_batches((line(row) for row in chain(sample, rows)), write)


def write_json(table: Rows, write: Write) -> int:
    """Write an object per line; return the number of rows."""
    layout = "{" + ", ".join(f"{json_text(camel_case(name))}: %s" for name in table.columns) + "}\n"
    lines = (layout % tuple(map(json_text, row)) for row in table.rows)
    return _write_batches(lines, write)


def write_csv(table: Rows, write: Write) -> int:
    """Write a header and a line per row; return the number of rows."""

    def lines() -> Iterator[str]:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        for row in chain((table.columns,), table.rows):
            buffer.seek(0)
            buffer.truncate()
            writer.writerow(["" if cell is None else cell if isinstance(cell, str) else json_text(cell) for cell in row])
            yield buffer.getvalue()

    return _write_batches(lines(), write) - 1


def _write_batches(lines: Iterator[str], write: Write) -> int:
    count = 0
    while batch := list(islice(lines, _BATCH)):
        write("".join(batch))
        count += len(batch)
    return count

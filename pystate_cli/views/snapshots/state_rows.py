"""Rows of state as text: a table, JSON lines, CSV. Rows are written batch by batch while they are read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from pystate.common.text.json_text import json_text
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
    """Return a cell for display: a string unchanged unless it has control characters; all else as JSON, None as null."""
    return value if isinstance(value, str) and value.isprintable() else _printable(json_text(value))


def _printable(text: str) -> str:
    """Return JSON with escapes for control characters, invisible ones, and marks of the writing direction."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _width(text: str) -> int:
    """Return the number of terminal cells of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def write_table(table: Rows, write: Write) -> int:
    """Write aligned columns, with the widths of the first rows; return the number of rows."""
    rows = ([cell_text(cell) for cell in row] for row in table.rows)
    sample = list(islice(rows, _SAMPLE))
    widths = [min(_WIDEST, max(map(_width, column))) for column in zip(table.columns, *sample, strict=True)]
    widths[-1] = 0
    layout = "  ".join(f"%-{width}s" for width in widths)

    def line(cells: Sequence[str]) -> str:
        if all(map(str.isascii, cells)):
            return f"{(layout % tuple(cells)).rstrip()}\n"
        return f"{'  '.join(map(_padded, cells, widths)).rstrip()}\n"

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

"""Tables that fit the terminal, with the widest possible layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pystate_cli.tables.column import Column, Row
from pystate_cli.tables.kinds import Look

if TYPE_CHECKING:
    from rich.table import Table

_WIDE_LEAST = 20


def fitted_tables(
    layouts: Iterable[tuple[tuple[Column[Row], ...], Look]],
    groups: Sequence[Sequence[Row]],
    width: int,
    style: Callable[[Row], str],
) -> list[Table]:
    """Return several tables with the same columns in the first layout that fits, else in the last one.

    Args:
        layouts: The possible layouts, widest first.
        groups: The rows of each table.
        width: Columns of the terminal.
        style: The rich style of a whole row.
    """
    for columns, look in layouts:
        cells = [[[column.text(row, look) for column in columns] for row in rows] for rows in groups]
        widths = _widths(columns, [line for lines in cells for line in lines], width, look)
        if sum(widths) + _gap(look) * (len(widths) - 1) <= width:
            break
    return [
        _table(columns, list(zip(rows, lines, strict=True)), widths, look, style)
        for rows, lines in zip(groups, cells, strict=True)
    ]


def _gap(look: Look) -> int:
    return 2 if look.wide else 1


def _heading(column: Column[Row], look: Look) -> str:
    return (column.heading if look.wide or column.short is None else column.short) or ""


def _table(
    columns: Sequence[Column[Row]],
    lines: Sequence[tuple[Row, Sequence[str]]],
    widths: Sequence[int],
    look: Look,
    style: Callable[[Row], str],
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if look.unicode else box.ASCII2,
        padding=(0, _gap(look) - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for column, size in zip(columns, widths, strict=True):
        table.add_column(
            _heading(column, look),
            justify="left" if column.is_left else "right",
            width=size,
            no_wrap=True,
            overflow="crop",
        )
    for row, texts in lines:
        cells = []
        for column, text, size in zip(columns, texts, widths, strict=True):
            cut = shortened_at_the_start if column.keeps_end else shortened
            shown = text if column.least is None else cut(text, size, unicode=look.unicode)
            cells.append(Text(shown, style=column.text_style(row)))
        table.add_row(*cells, style=style(row))
    return table


def shortened(text: str, size: int, *, unicode: bool) -> str:
    """Shorten a text to at most `size` cells of a terminal, with a mark where it was cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= size:
        return text
    mark = "…" if unicode else ".."
    return set_cell_size(text, max(0, size - cell_len(mark))) + mark


def shortened_at_the_start(text: str, size: int, *, unicode: bool) -> str:
    """Shorten a text to its last `size` cells of a terminal, with a mark where it was cut."""
    from rich.cells import cell_len

    if cell_len(text) <= size:
        return text
    mark = "…" if unicode else ".."
    room = max(0, size - cell_len(mark))
    while cell_len(text) > room:
        text = text[1:]
    return mark + text


def _widths(columns: Sequence[Column[Row]], lines: Sequence[Sequence[str]], width: int, look: Look) -> list[int]:
    natural = [
        max(_cell_width(text) for text in (_heading(column, look), *(line[place] for line in lines)))
        for place, column in enumerate(columns)
    ]
    least = [
        size if column.least is None else min(size, column.most, max(column.least, _WIDE_LEAST if look.wide else 0))
        for column, size in zip(columns, natural, strict=True)
    ]
    room = width - sum(least) - _gap(look) * (len(least) - 1)
    widths = []
    for column, size, small in zip(columns, natural, least, strict=True):
        given = small if column.least is None else min(size, column.most, small + max(0, room))
        room -= given - small
        widths.append(given)
    return widths


def _cell_width(text: str) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for line in text.splitlines()), default=0)

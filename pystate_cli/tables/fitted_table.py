"""Tables that fit the terminal: the widest layout there is room for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_WIDE_LEAST = 20


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: What its cells are found by.
        heading: What stands above it.
        short: The heading where there is little room; None: the same.
        left: Whether its cells begin on the left; numbers end on the right.
        least: To how many characters its cells may give way; None: never, they'd be of no use.
        most: How many characters it gets at most.
        wraps: Cells that give way go on in the next line instead of being cut.
        keeps_end: Cells that give way lose their beginning: names in groups differ at their ends.
    """

    name: str
    heading: str
    short: str | None = None
    left: bool = False
    least: int | None = None
    most: int = 48
    wraps: bool = False
    keeps_end: bool = False


@dataclass(frozen=True)
class Layout:
    """How much a table says.

    Attributes:
        columns: Which columns it has.
        wide: Long headings and words, or short headings and marks.
        brief: The shortest names.
    """

    columns: tuple[Column, ...]
    wide: bool
    brief: bool = False

    @property
    def gap(self) -> int:
        """Characters between two columns."""
        return 2 if self.wide else 1

    def heading(self, column: Column) -> str:
        """Return what stands above a column."""
        return column.heading if self.wide or column.short is None else column.short


@dataclass(frozen=True)
class Line:
    """A row of a table.

    Attributes:
        cells: Text by column name.
        styles: Style by column name, of rich.
        style: The style of the whole row.
    """

    cells: Mapping[str, str]
    styles: Mapping[str, str] = field(default_factory=dict)
    style: str = ""


def layouts(columns: Sequence[Column], *, extra: Sequence[str] = (), dropped: Sequence[str] = ()) -> Iterator[Layout]:
    """Yield layouts from the widest to the narrowest.

    Args:
        columns: All columns.
        extra: What is said in a wide layout only, and left out first, in this order.
        dropped: What is left out afterwards, in this order.
    """
    left = tuple(columns)
    yield Layout(left, wide=True)
    for name in extra:
        left = tuple(column for column in left if column.name != name)
        yield Layout(left, wide=True)
    for name in ("", *dropped):
        left = tuple(column for column in left if column.name != name)
        yield Layout(left, wide=False)
        yield Layout(left, wide=False, brief=True)


def fitted_table(
    choices: Iterable[Layout], lines_of: Callable[[Layout], Sequence[Line]], width: int, *, unicode: bool
) -> Table:
    """Return the table in the first layout that fits; the last one is taken as it is.

    Args:
        choices: Layouts, the best first.
        lines_of: Gives the rows as a layout says them.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
    """
    return fitted_tables(choices, lambda layout: [lines_of(layout)], width, unicode=unicode)[0]


def fitted_tables(
    choices: Iterable[Layout], groups_of: Callable[[Layout], Sequence[Sequence[Line]]], width: int, *, unicode: bool
) -> list[Table]:
    """Return several tables with the same columns, one below the other.

    Args:
        choices: Layouts, the best first.
        groups_of: Gives the rows of each table as a layout says them.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
    """
    for layout in choices:
        groups = groups_of(layout)
        widths = _widths(layout, [line for lines in groups for line in lines], width)
        if sum(widths) + layout.gap * (len(widths) - 1) <= width:
            break
    return [_table(layout, lines, widths, unicode=unicode) for lines in groups]


def _table(layout: Layout, lines: Sequence[Line], widths: Sequence[int], *, unicode: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if unicode else box.ASCII2,
        padding=(0, layout.gap - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for column, size in zip(layout.columns, widths, strict=True):
        table.add_column(
            layout.heading(column),
            justify="left" if column.left else "right",
            width=size,
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "crop",
        )
    for line in lines:
        cells = []
        for column, size in zip(layout.columns, widths, strict=True):
            text = line.cells[column.name]
            cut = shortened_in_front if column.keeps_end else shortened
            shown = text if column.wraps or column.least is None else cut(text, size, unicode=unicode)
            cells.append(Text(shown, style=line.styles.get(column.name, "")))
        table.add_row(*cells, style=line.style)
    return table


def shortened(text: str, size: int, *, unicode: bool) -> str:
    """Return a text that takes up no more than `size` places of a terminal, with a mark where it was cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= size:
        return text
    mark = "…" if unicode else ".."
    return set_cell_size(text, max(0, size - cell_len(mark))) + mark


def shortened_in_front(text: str, size: int, *, unicode: bool) -> str:
    """Return the end of a text that takes up no more than `size` places of a terminal, with a mark where it was cut."""
    from rich.cells import cell_len

    if cell_len(text) <= size:
        return text
    mark = "…" if unicode else ".."
    room = max(0, size - cell_len(mark))
    while cell_len(text) > room:
        text = text[1:]
    return mark + text


def _widths(layout: Layout, lines: Sequence[Line], width: int) -> list[int]:
    natural = []
    for column in layout.columns:
        texts = [layout.heading(column), *(line.cells[column.name] for line in lines)]
        natural.append(max(_cell_width(text) for text in texts))
    least = [
        size if column.least is None else min(size, column.most, max(column.least, _WIDE_LEAST if layout.wide else 0))
        for column, size in zip(layout.columns, natural, strict=True)
    ]
    room = width - sum(least) - layout.gap * (len(least) - 1)
    widths = []
    for column, size, small in zip(layout.columns, natural, least, strict=True):
        given = small if column.least is None else min(size, column.most, small + max(0, room))
        room -= given - small
        widths.append(given)
    return widths


def _cell_width(text: str) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for line in text.splitlines()), default=0)

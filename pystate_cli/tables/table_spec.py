"""One specification per table of the command line: what a terminal, a pipe and `--json` show of a row follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pystate.common.time import current_time_ms
from pystate_cli.tables.kinds import TEXT, Kind, Look

if TYPE_CHECKING:
    from rich.table import Table

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: what its value is, what it is called, how it is written.

    Attributes:
        name: What it is found by.
        value: Gets the value of a row, as programs need it: bytes, ms; None for one that is not known.
        kind: How it is written.
        heading: What stands above it on a terminal; None: it isn't shown there.
        short: The heading where there is little room; None: the same.
        plain: What it is called in a pipe; None: it isn't shown there.
        width: Characters it takes up in a pipe, where they are fixed; None: as many as its cells.
        json: Where `--json` has the value: keys in our spelling with dots between; None: derived from what has one.
        shown: What a terminal shows where the kind alone doesn't say it.
        style: The style of the cell, of rich.
        left: Whether its cells begin on the left; None: as the kind has it.
        least: To how many characters its cells may give way; None: never, they'd be of no use.
        most: How many characters it gets at most.
        wraps: Cells that give way go on in the next line instead of being cut.
        keeps_end: Cells that give way lose their beginning: names in groups differ at their ends.
        wide_only: It is the first that goes where there is no room for all.
        priority: A terminal that is still too narrow leaves columns out in this order, the highest number last; None: never.
    """

    name: str
    value: Callable[[Row], Any]
    kind: Kind = TEXT
    heading: str | None = None
    short: str | None = None
    plain: str | None = None
    width: int | None = None
    json: str | None = None
    shown: Callable[[Row, Look], str] | None = None
    style: Callable[[Row], str] | None = None
    left: bool | None = None
    least: int | None = None
    most: int = 48
    wraps: bool = False
    keeps_end: bool = False
    wide_only: bool = False
    priority: int | None = None

    @property
    def is_left(self) -> bool:
        """Whether its cells begin on the left."""
        return self.kind.left if self.left is None else self.left

    def text(self, row: Row, look: Look) -> str:
        """Return the cell for people."""
        return self.kind.shown(self.value(row), look) if self.shown is None else self.shown(row, look)

    def text_style(self, row: Row) -> str:
        """Return the style of the cell."""
        return "" if self.style is None else self.style(row)

    def plain_text(self, row: Row) -> str:
        """Return the cell for programs."""
        return self.kind.plain(self.value(row))


def _no_style(_: object) -> str:
    return ""


@dataclass(frozen=True)
class TableSpec(Generic[Row]):
    """The columns of a table.

    Attributes:
        columns: From left to right.
        style: The style of a whole row on a terminal, of rich.
        plain_order: The names of the columns in a pipe, where their order is another one.
    """

    columns: tuple[Column[Row], ...]
    style: Callable[[Row], str] = field(default=_no_style)
    plain_order: tuple[str, ...] = ()

    def without(self, *names: str) -> TableSpec[Row]:
        """Return the table without some columns."""
        return replace(self, columns=tuple(column for column in self.columns if column.name not in names))

    def only(self, *names: str) -> TableSpec[Row]:
        """Return the table with these columns only."""
        return replace(self, columns=tuple(column for column in self.columns if column.name in names))

    # -- for people

    def table(self, rows: Iterable[Row], width: int, *, unicode: bool, now: int | None = None) -> Table:
        """Return the table for a terminal of that width; a narrow one gets marks for words, short names, then fewer columns.

        Args:
            rows: The rows.
            width: Columns of the terminal.
            unicode: Whether it shows more than ASCII.
            now: Milliseconds since 1970; None for now.
        """
        return self.tables([list(rows)], width, unicode=unicode, now=now)[0]

    def tables(self, groups: Sequence[Sequence[Row]], width: int, *, unicode: bool, now: int | None = None) -> list[Table]:
        """Return a table per group of rows, all with the same columns, to stand one below the other."""
        from pystate_cli.tables.fitted_table import fitted_tables

        return fitted_tables(self, groups, width, Look(current_time_ms() if now is None else now, unicode))

    def layouts(self, look: Look) -> Iterator[tuple[tuple[Column[Row], ...], Look]]:
        """Yield what a terminal may show, from the most to the least."""
        left = tuple(column for column in self.columns if column.heading is not None)
        yield left, look
        for one in [column for column in left if column.wide_only]:
            left = tuple(column for column in left if column is not one)
            yield left, look
        going = sorted((column for column in left if column.priority is not None), key=lambda column: column.priority or 0)
        for gone in (None, *going):
            left = tuple(column for column in left if column is not gone)
            yield left, replace(look, wide=False)
            yield left, replace(look, wide=False, brief=True)

    # -- for programs

    def plain(self, rows: Iterable[Row]) -> list[str]:
        """Return a header and a line per row: columns of fixed width, the last of any length, with exact values."""
        shown = self._plain_columns()
        lines = [[column.plain or "" for column in shown], *([column.plain_text(row) for column in shown] for row in rows)]
        widths = [
            max(len(line[place]) for line in lines) if column.width is None else column.width
            for place, column in enumerate(shown)
        ]
        widths[-1] = 0
        return ["  ".join(f"{cell:<{size}}" for cell, size in zip(line, widths, strict=True)).rstrip() for line in lines]

    def facts(self, row: Row) -> list[tuple[str, str]]:
        """Return name and value of each column of a single row, to stand one below the other."""
        return [(column.plain or "", column.plain_text(row)) for column in self._plain_columns()]

    def tabbed(self, rows: Iterable[Row]) -> list[str]:
        """Return a line per row, without a header, with tabs between the cells."""
        shown = self._plain_columns()
        return ["\t".join(column.plain_text(row) for column in shown) for row in rows]

    def _plain_columns(self) -> list[Column[Row]]:
        named = {column.name: column for column in self.columns if column.plain is not None}
        return [named[name] for name in self.plain_order if name in named] if self.plain_order else list(named.values())

    def json(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """Return an object per row, of the columns that have a key."""
        return [self.json_object(row) for row in rows]

    def json_object(self, row: Row) -> dict[str, Any]:
        """Return a row as an object."""
        found: dict[str, Any] = {}
        for column in self.columns:
            if column.json is not None:
                *above, last = column.json.split(".")
                place = found
                for key in above:
                    place = place.setdefault(key, {})
                place[last] = column.value(row)
        return found


def value_at(data: Mapping[str, Any], path: str) -> Any:
    """Return what stands at a path of keys with dots between; None where nothing does."""
    found: Any = data
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found

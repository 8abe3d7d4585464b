"""One specification per table of the command line: what a terminal, a pipe and `--json` show of a row follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic

from pystate.common.time import current_time_ms
from pystate_cli.tables.column import Column, Row
from pystate_cli.tables.fitted_table import fitted_tables
from pystate_cli.tables.kinds import Look

if TYPE_CHECKING:
    from rich.table import Table


def _no_style(_: object) -> str:
    return ""


@dataclass(frozen=True)
class TableSpec(Generic[Row]):
    """The columns of a table.

    Attributes:
        columns: From left to right.
        style: The rich style of a whole row on a terminal.
        plain_order: The names of the columns in a pipe, if the order differs.
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

    # -- for display

    def table(self, rows: Iterable[Row], width: int, *, unicode: bool, now: int | None = None) -> Table:
        """Return the table for a terminal of that width; narrow ones get marks, short names, then fewer columns.

        Args:
            rows: The rows.
            width: Columns of the terminal.
            unicode: Whether it shows more than ASCII.
            now: Milliseconds since 1970; None for now.
        """
        return self.tables([list(rows)], width, unicode=unicode, now=now)[0]

    def tables(self, groups: Sequence[Sequence[Row]], width: int, *, unicode: bool, now: int | None = None) -> list[Table]:
        """Return a table per group of rows, all with the same columns, to be stacked."""
        look = Look(current_time_ms() if now is None else now, unicode)
        shown = self.without(*self._columns_of_nothing(groups))
        return fitted_tables(shown.layouts(look), groups, width, self.style)

    def _columns_of_nothing(self, groups: Sequence[Sequence[Row]]) -> list[str]:
        seldom = [column for column in self.columns if column.only_if_any]
        return [column.name for column in seldom if not any(column.value(row) for rows in groups for row in rows)]

    def layouts(self, look: Look) -> Iterator[tuple[tuple[Column[Row], ...], Look]]:
        """Yield the possible layouts for a terminal, widest first."""
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
        """Return name and value of each column of a single row, one per line."""
        return [(column.plain or "", column.plain_text(row)) for column in self._plain_columns()]

    def tabbed(self, rows: Iterable[Row]) -> list[str]:
        """Return a line per row, without a header, with tabs between the cells."""
        shown = self._plain_columns()
        return ["\t".join(column.plain_text(row) for column in shown) for row in rows]

    def _plain_columns(self) -> list[Column[Row]]:
        named = {column.name: column for column in self.columns if column.plain is not None}
        return [named[name] for name in self.plain_order if name in named] if self.plain_order else list(named.values())

    def json(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """Return an object per row, with the columns that have a key."""
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
    """Return the value at a path of keys joined by dots; None if there is none."""
    found: Any = data
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found

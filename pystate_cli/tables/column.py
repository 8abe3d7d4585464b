"""A column of a table: its value, its heading, and how it is written on a terminal, in a pipe and in JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pystate_cli.tables.kinds import TEXT, Kind, Look

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
        keeps_end: Cells that give way lose their beginning: names in groups differ at their ends.
        only_if_any: A terminal doesn't show it where no row has a value but 0.
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
    keeps_end: bool = False
    only_if_any: bool = False
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

"""A column of a table: its value, its heading, and its formats on a terminal, in a pipe and in JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pystate_cli.tables.kinds import TEXT, Kind, Look

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of a table.

    Attributes:
        name: Its identifier.
        value: Returns the exact value for a row: bytes, ms; None if unknown.
        kind: The format of its values.
        heading: The heading on a terminal; None: not shown there.
        short: The heading on a narrow terminal; None: the same.
        plain: The heading in a pipe; None: not shown there.
        width: The fixed width in a pipe; None: that of its cells.
        json: The path of the value in `--json`: camelCase keys joined by dots; None: not in JSON.
        shown: The text on a terminal, if the kind alone doesn't determine it.
        style: The rich style of the cell.
        left: Whether its cells are left-aligned; None: as its kind.
        least: The minimum width to shorten its cells to; None: never shortened.
        most: The maximum width.
        keeps_end: Whether shortened cells lose their beginning: names in groups differ at their ends.
        only_if_any: Whether a terminal hides it if all values are 0 or unknown.
        wide_only: Whether it is the first to be left out on a narrow terminal.
        priority: A still narrower terminal leaves columns out in this order, the highest number last; None: never.
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
        """Whether its cells are left-aligned."""
        return self.kind.left if self.left is None else self.left

    def text(self, row: Row, look: Look) -> str:
        """Return the cell for display."""
        return self.kind.shown(self.value(row), look) if self.shown is None else self.shown(row, look)

    def text_style(self, row: Row) -> str:
        """Return the style of the cell."""
        return "" if self.style is None else self.style(row)

    def plain_text(self, row: Row) -> str:
        """Return the cell for programs."""
        return self.kind.plain(self.value(row))

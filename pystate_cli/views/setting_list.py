"""Settings: the value of each option and where it comes from."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.sensitive_keys import HIDDEN, is_sensitive
from pystate_cli.console.formats import UNKNOWN, printable
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, layouts

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    Column("key", "Key", left=True, least=24, most=60),
    Column("value", "Value", left=True, least=16, most=80),
    Column("origin", "From", left=True, least=10, most=80),
)


@dataclass(frozen=True)
class SettingRow:
    """One option. `value` is None for one without a value, `place` empty where the kind of origin says all."""

    key: str
    value: str | None
    is_set: bool
    kind: str
    place: str
    default: str | None
    allowed: str
    description: str

    @property
    def shown(self) -> str:
        """The value, unless it is a secret."""
        if self.value is None:
            return UNKNOWN
        return HIDDEN if self.is_set and self.is_secret else printable(self.value)

    @property
    def bare(self) -> str:
        """The value alone for programs, empty for none, unless it is a secret."""
        return HIDDEN if self.value is not None and self.is_set and self.is_secret else self.value or ""

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown."""
        return is_sensitive(self.key)

    @property
    def origin(self) -> str:
        """Where the value comes from."""
        return self.place or self.kind

    def to_plain(self) -> dict[str, Any]:
        """Return it for programs."""
        value = None if self.value is None else self.bare
        return {
            "key": self.key,
            "value": value,
            "default": self.default,
            "is_set": self.is_set,
            "origin": self.kind,
            "place": self.place or None,
        }


def plain_lines(rows: Sequence[SettingRow]) -> list[str]:
    """Return a line per option for programs: key, value and origin, with tabs between."""
    return [f"{row.key}\t{row.shown}\t{row.origin}" for row in rows]


def table(rows: Sequence[SettingRow], width: int, *, unicode: bool) -> RenderableType:
    """Return the table for a terminal of that width; what is set stands out."""

    def line(row: SettingRow, layout: Layout) -> Line:
        file, comma, place = row.place.rpartition(", ")
        # the file is the same for all, and said below the table
        origin = place if comma and not layout.wide else f"{os.path.basename(file)}, {place}" if comma else row.origin
        cells = {"key": row.key, "value": row.shown, "origin": origin}
        return Line(cells, {"value": "bold"} if row.is_set else {}, "" if row.is_set else "dim")

    return fitted_table(
        layouts(_COLUMNS, dropped=("origin",)), lambda layout: [line(row, layout) for row in rows], width, unicode=unicode
    )


def details(row: SettingRow, width: int) -> RenderableType:
    """Return all about one option."""
    from rich.console import Group
    from rich.text import Text

    lines = [Text(row.key, style="bold"), Text(f"  value    {row.shown}", style="green" if row.is_set else "")]
    lines.append(Text(f"  from     {row.origin}"))
    if row.is_set and row.default is not None:
        lines.append(Text(f"  default  {row.default}"))
    for title, text in (("allowed", row.allowed), ("", row.description)):
        for number, part in enumerate(textwrap.wrap(text, max(30, width - 11))):
            lines.append(Text(f"  {title if number == 0 else '':<7}  {part}", style="dim"))
    return Group(*lines)

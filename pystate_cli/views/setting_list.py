"""Settings: the value of each option and where it comes from."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystate.common.configuration.sensitive_keys import HIDDEN, is_sensitive
from pystate.common.text.figures import UNKNOWN
from pystate_cli.console.formats import printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import TEXT, Kind, Look
from pystate_cli.tables.table_spec import TableSpec

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class SettingRow:
    """One option. `value` is None for one without a value, `place` is empty if the kind of origin is enough."""

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
        """The plain value for programs, empty for none, unless it is a secret."""
        return HIDDEN if self.value is not None and self.is_set and self.is_secret else self.value or ""

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown."""
        return is_sensitive(self.key)

    @property
    def origin(self) -> str:
        """Where the value comes from."""
        return self.place or self.kind


def _shown_origin(row: SettingRow, look: Look) -> str:
    file, comma, place = row.place.rpartition(", ")
    # the file is the same for all, and shown below the table
    return place if comma and not look.wide else f"{os.path.basename(file)}, {place}" if comma else row.origin


_VALUE = Kind(
    lambda value, _: UNKNOWN if value is None else printable(value),
    lambda value: UNKNOWN if value is None else printable(value),
    left=True,
)
SETTINGS: TableSpec[SettingRow] = TableSpec(
    (
        Column("key", lambda row: row.key, TEXT, "Key", plain="key", json="key", least=24, most=60),
        Column(
            "value", lambda row: None if row.value is None else row.bare, _VALUE, "Value", plain="value", json="value",
            style=lambda row: "bold" if row.is_set else "", least=16, most=80,
        ),
        Column("default", lambda row: row.default, TEXT, json="default"),
        Column("is_set", lambda row: row.is_set, TEXT, json="isSet"),
        Column(
            "from", lambda row: row.origin, TEXT, "From", plain="from", shown=_shown_origin, least=10, most=80, priority=1
        ),
        Column("origin", lambda row: row.kind, TEXT, json="origin"),
        Column("place", lambda row: row.place or None, TEXT, json="place"),
    ),
    style=lambda row: "" if row.is_set else "dim",
)  # fmt: skip
"""`pystate config`; what is set stands out. In a pipe there are tabs between the cells."""


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

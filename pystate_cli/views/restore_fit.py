"""The result of a restore check: the operators and sources of a snapshot and of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pystate.common.text.figures import UNKNOWN
from pystate_cli.console.formats import printable
from pystate_cli.console.json_keys import camel_case
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import NUMBER, TEXT, Kind, Look
from pystate_cli.tables.table_spec import TableSpec, value_at

if TYPE_CHECKING:
    from rich.console import RenderableType

_MISFIT = "does not fit"
_MARKS = {"restored": "=", "new": "+", "left behind": "-", _MISFIT: "!"}
_STYLES = {"restored": "", "new": "green", "left behind": "yellow", _MISFIT: "bold red"}

Entry = Mapping[str, Any]
"""An operator or a source, as `RestoreCheck.to_json` gives it."""


def _style(one: Entry) -> str:
    return _STYLES[one["fit"]]


def _position(one: Entry) -> str:
    before = one["snapshot"]
    return before["position"] if before else "from its beginning"


def _sides(field: str, name: str, heading: str, short: str) -> tuple[Column[Entry], ...]:
    """Return the columns of a field in the snapshot and in the program: one for display, two for programs."""

    def side(which: str) -> Callable[[Entry], int | None]:
        return lambda one: value_at(one, f"{which}.{field}")

    def changed(one: Entry, look: Look) -> str:
        known = [str(value) for value in (side("snapshot")(one), side("program")(one)) if value is not None]
        return (" → " if look.unicode else " -> ").join(dict.fromkeys(known)) or UNKNOWN

    key = camel_case(field)
    return (
        Column(name, side("program"), NUMBER, heading, short, shown=changed),
        Column(f"{name}_a", side("snapshot"), NUMBER, plain=f"{name}_a", json=f"snapshot.{key}"),
        Column(f"{name}_b", side("program"), NUMBER, plain=f"{name}_b", json=f"program.{key}"),
    )


_MARK: Column[Entry] = Column("mark", lambda one: _MARKS[one["fit"]], TEXT, "", left=False, style=_style)
_FIT: Column[Entry] = Column(
    "fit", lambda one: one["fit"], Kind(TEXT.shown, lambda fit: str(fit).replace(" ", "_"), left=True), "Becomes",
    plain="fit", json="fit", style=_style,
)  # fmt: skip
OPERATORS: TableSpec[Entry] = TableSpec(
    (
        _MARK,
        Column("uid", lambda one: one["uid"], TEXT, "Operator", plain="operator", json="uid", least=8, style=_style),
        Column(
            "name", lambda one: (one["program"] or one["snapshot"])["name"], TEXT, "Name", plain="name", least=6, priority=1,
        ),
        *_sides("parallelism", "parallelism", "Parallelism", "Par."),
        *_sides("max-parallelism", "max", "Key groups", "Groups"),
        Column(
            "keys", lambda one: value_at(one, "snapshot.key-type"), TEXT, "Keys",
            plain="keys", json="snapshot.keyType", least=6,
        ),
        _FIT,
    ),
    plain_order=("fit", "uid", "parallelism_a", "parallelism_b", "max_a", "max_b", "keys", "name"),
)  # fmt: skip
"""`pystate info -s PATH`; JSON is an entry of `restore.operators`."""
SOURCES: TableSpec[Entry] = TableSpec(
    (
        _MARK,
        Column("uid", lambda one: one["uid"], TEXT, "Source", plain="source", json="uid", least=8, style=_style),
        Column("position", _position, TEXT, "Read so far", plain="position", least=10, most=72),
        _FIT,
    ),
    plain_order=("fit", "uid", "position"),
)
"""`pystate info -s PATH`; JSON is an entry of `restore.sources`."""


def restore_parts(restore: Mapping[str, Any], width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Yield the parts for a terminal of that width.

    Args:
        restore: The result of `RestoreCheck.to_json`.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
    """
    from rich.text import Text

    yield Text(f"restored from {printable(restore['path'])}", style="dim")
    for spec, entries in ((OPERATORS, restore["operators"]), (SOURCES, restore["sources"])):
        if entries:
            yield Text("")
            yield spec.table(entries, width, unicode=unicode)


def restore_lines(restore: Mapping[str, Any]) -> list[str]:
    """Return the lines for a pipe: one per operator, one per source."""
    sources = restore["sources"]
    return [*OPERATORS.plain(restore["operators"]), *(["", *SOURCES.plain(sources)] if sources else ())]


def problem_lines(restore: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems, and what to do about them."""
    for what in ("operators", "sources"):
        for one in restore[what]:
            if one["problem"] is not None:
                yield f"{printable(one['uid'])}: {one['problem']}"
                if one["hint"]:
                    yield f"  try: {one['hint']}"

"""What a program would make of a snapshot: its operators and sources beside those of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import UNKNOWN, printable
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_tables, layouts
from pystate_cli.tables.plain_columns import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_MISFIT = "does not fit"
_MARKS = {"restored": "=", "new": "+", "left behind": "-", _MISFIT: "!"}
_STYLES = {"restored": "", "new": "green", "left behind": "yellow", _MISFIT: "bold red"}
_OPERATORS = (
    Column("mark", ""),
    Column("uid", "Operator", left=True, least=8),
    Column("name", "Name", left=True, least=6),
    Column("parallelism", "Parallelism", short="Par."),
    Column("max", "Key groups", short="Groups"),
    Column("keys", "Keys", left=True, least=6),
    Column("fit", "Becomes", left=True),
)
_SOURCES = (
    Column("mark", ""),
    Column("uid", "Source", left=True, least=8),
    Column("position", "Read so far", left=True, least=10, most=72),
    Column("fit", "Becomes", left=True),
)


def restore_parts(restore: Mapping[str, Any], width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Yield what a terminal of that width shows.

    Args:
        restore: What `RestoreCheck.to_json` gives.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
    """
    from rich.text import Text

    arrow = " → " if unicode else " -> "
    groups = (
        (_OPERATORS, [_line(one, _operator_cells(one, arrow)) for one in restore["operators"]], ("name",)),
        (_SOURCES, [_line(one, _source_cells(one)) for one in restore["sources"]], ()),
    )
    yield Text(f"restored from {printable(restore['path'])}", style="dim")
    for columns, lines, dropped in groups:
        if lines:
            yield Text("")
            yield from fitted_tables(layouts(columns, dropped=dropped), partial(_one, lines), width, unicode=unicode)


def _one(lines: list[Line], _layout: Layout) -> list[list[Line]]:
    return [lines]


def restore_lines(restore: Mapping[str, Any]) -> list[str]:
    """Return the lines for a pipe: one per operator, one per source."""
    operators = [
        [one["fit"].replace(" ", "_"), printable(one["uid"]), *_sides(one, "parallelism"), *_sides(one, "max-parallelism"),
         _keys(one), _name(one)]
        for one in restore["operators"]
    ]  # fmt: skip
    names = ("fit", "operator", "parallelism_a", "parallelism_b", "max_a", "max_b", "keys")
    lines = _plain(names, "name", operators)
    if restore["sources"]:
        sources = [
            [one["fit"].replace(" ", "_"), printable(one["uid"]), _source_cells(one)["position"]]
            for one in restore["sources"]
        ]
        lines += ["", *_plain(("fit", "source"), "position", sources)]
    return lines


def problem_lines(restore: Mapping[str, Any]) -> Iterator[str]:
    """Yield what does not fit, and what to do then."""
    for what in ("operators", "sources"):
        for one in restore[what]:
            if one["problem"] is not None:
                yield f"{printable(one['uid'])}: {one['problem']}"
                if one["hint"]:
                    yield f"  try: {one['hint']}"


def _plain(names: Sequence[str], last: str, rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max([len(name), *(len(row[number]) for row in rows)]) for number, name in enumerate(names)]
    return plain_table([*zip(names, widths, strict=True), (last, 0)], rows)


def _line(one: Mapping[str, Any], cells: dict[str, str]) -> Line:
    style = _STYLES[one["fit"]]
    own = {"mark": _MARKS[one["fit"]], "uid": printable(one["uid"]), "fit": one["fit"]}
    return Line({**cells, **own}, {"mark": style, "uid": style, "fit": style})


def _operator_cells(one: Mapping[str, Any], arrow: str) -> dict[str, str]:
    return {
        "name": _name(one),
        "parallelism": _changed(_sides(one, "parallelism"), arrow),
        "max": _changed(_sides(one, "max-parallelism"), arrow),
        "keys": _keys(one),
    }


def _source_cells(one: Mapping[str, Any]) -> dict[str, str]:
    before = one["snapshot"]
    return {"position": printable(before["position"]) if before else "from its beginning"}


def _sides(one: Mapping[str, Any], field: str) -> list[str]:
    values = [(one[side] or {}).get(field) for side in ("snapshot", "program")]
    return [UNKNOWN if value is None else str(value) for value in values]


def _changed(sides: Sequence[str], arrow: str) -> str:
    return arrow.join(dict.fromkeys(side for side in sides if side != UNKNOWN)) or UNKNOWN


def _name(one: Mapping[str, Any]) -> str:
    return printable((one["program"] or one["snapshot"])["name"])


def _keys(one: Mapping[str, Any]) -> str:
    return printable((one["snapshot"] or {}).get("key-type") or UNKNOWN)

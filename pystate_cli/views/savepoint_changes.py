"""How two savepoints differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import UNKNOWN, format_count, format_size, printable
from pystate_cli.tables.fitted_table import Column, Line, fitted_tables, layouts, shortened
from pystate_cli.tables.plain_columns import plain_number, plain_table
from pystate_cli.views.savepoint_details import Inspection, kind_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pystate.checkpoint.catalog.difference import Change, OperatorDifference, StateDifference
    from pystate.checkpoint.catalog.source_difference import SourceDifference

_MARKS = {"added": "+", "removed": "-", "changed": "~", "same": "=", "alike": "?"}
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "same": "dim", "alike": "dim"}
_COLUMNS = (
    Column("mark", ""),
    Column("state", "State", left=True, least=8),
    Column("type", "Type", left=True, least=10, most=72),
    Column("entries", "Entries"),
    Column("size", "Bytes"),
)


def change_parts(
    before: Inspection,
    after: Inspection,
    differences: Sequence[OperatorDifference],
    sources: Sequence[SourceDifference],
    width: int,
    *,
    unicode: bool,
) -> Iterator[RenderableType]:
    """Yield what a terminal of that width shows."""
    from rich.text import Text

    for name, side in (("A", before), ("B", after)):
        yield Text.assemble((f"{name}  ", "dim"), shortened(_title(side), width - 3, unicode=unicode))
    groups = [[_line(state, unicode=unicode) for state in one.states] for one in differences]
    tables = fitted_tables(layouts(_COLUMNS, dropped=("type",)), lambda _: groups, width, unicode=unicode)
    for one, lines, table in zip(differences, groups, tables, strict=True):
        yield Text("")
        yield Text.assemble(
            (f"{_MARKS[one.change.value]} {printable(one.some.uid)}", f"bold {_STYLES[one.change.value]}"),
            "".join(f"   {fact}" for fact in _operator_changes(one, unicode=unicode)),
        )
        if lines:
            yield table
    if sources:
        yield Text("")
        yield Text("sources", style="bold")
    for source in sources:
        mark, style = _MARKS[source.change.value], _STYLES[source.change.value]
        yield Text.assemble((f"{mark} {printable(source.uid)}", style), f"  {_positions(source, unicode=unicode)}")


def _title(inspection: Inspection) -> str:
    one = inspection.summary
    message = f"  {printable(one.message)}" if one.message else ""
    return f"{one.snapshot_id or one.uri}  {printable(one.job_name)}{message}"


def _operator_changes(one: OperatorDifference, *, unicode: bool) -> Iterator[str]:
    arrow = "→" if unicode else "->"
    if one.before is None or one.after is None:
        yield one.change.value
        return
    for name, old, new in (
        ("parallelism", one.before.parallelism, one.after.parallelism),
        ("max parallelism", one.before.max_parallelism, one.after.max_parallelism),
        ("keys", one.before.key_type or UNKNOWN, one.after.key_type or UNKNOWN),
        ("name", one.before.name, one.after.name),
    ):
        if old != new:
            yield printable(f"{name} {old} {arrow} {new}")
    if one.change.value in ("same", "alike"):
        yield one.change.value


def _line(state: StateDifference, *, unicode: bool) -> Line:
    arrow = " → " if unicode else " -> "
    sides = [state.before, state.after]
    known = [side for side in sides if side is not None]
    types = [f"{kind_text(side)} of {side.type}" for side in known]
    cells = {
        "mark": _MARKS[state.change.value],
        "state": printable(state.some.name) or UNKNOWN,
        "type": printable(arrow.join(dict.fromkeys(types))),
        "entries": arrow.join(dict.fromkeys(format_count(side.entries) for side in known)),
        "size": arrow.join(dict.fromkeys(format_size(side.size) for side in known)),
    }
    style = _STYLES[state.change.value]
    return Line(cells, {"mark": style, "state": style, "type": "yellow" if state.type_changed else ""})


def _positions(source: SourceDifference, *, unicode: bool) -> str:
    arrow = " → " if unicode else " -> "
    known = [position.words for position in (source.before, source.after) if position is not None]
    if len(set(known)) < len(known) and source.change.value == "changed":
        known = [position.offset for position in (source.before, source.after) if position is not None]
    return printable(arrow.join(dict.fromkeys(known)))


def change_lines(
    before: Inspection,
    after: Inspection,
    differences: Sequence[OperatorDifference],
    sources: Sequence[SourceDifference],
) -> list[str]:
    """Return the lines for a pipe: one per operator, one per state, and one per source."""
    rows = []
    for one in differences:
        uid = printable(one.some.uid)
        rows.append([one.change.value, uid, UNKNOWN, *[UNKNOWN] * 4, "; ".join(_operator_changes(one, unicode=False))])
        for state in one.states:
            old, new = state.before, state.after
            types = [f"{kind_text(side)} of {side.type}" for side in (old, new) if side is not None]
            rows.append(
                [
                    state.change.value,
                    uid,
                    printable(state.some.name) or UNKNOWN,
                    *(plain_number(None if side is None else side.entries) for side in (old, new)),
                    *(plain_number(None if side is None else side.size) for side in (old, new)),
                    printable(" -> ".join(dict.fromkeys(types))),
                ]
            )
    names = ("change", "operator", "state", "entries_a", "entries_b", "bytes_a", "bytes_b")
    heads = [f"a: {before.summary.uri}", f"b: {after.summary.uri}", ""]
    lines = [*heads, *_plain_lines(names, "type", rows)]
    if sources:
        of_sources = [[source.change.value, printable(source.uid), _positions(source, unicode=False)] for source in sources]
        lines += ["", *_plain_lines(("change", "source"), "position", of_sources)]
    return lines


def _plain_lines(names: Sequence[str], last: str, rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max([len(name), *(len(row[number]) for row in rows)]) for number, name in enumerate(names)]
    return plain_table([*zip(names, widths, strict=True), (last, 0)], rows)


def key_line(change: Change, key: Any) -> str:
    """Return the line of a key that differs."""
    return f"{_MARKS[change.value]} {printable(repr(key))}"

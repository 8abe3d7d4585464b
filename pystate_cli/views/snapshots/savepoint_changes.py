"""The differences of two savepoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.text.figures import UNKNOWN
from pystate_cli.console.formats import printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.fitted_table import shortened
from pystate_cli.tables.kinds import COUNT, PHRASE, SIZE, TEXT, Kind, Look
from pystate_cli.tables.table_spec import TableSpec
from pystate_cli.views.snapshots.savepoint_details import Inspection, kind_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pystate.core.snapshot.reading.inspection import StateFigures
    from pystate.ops.catalog.difference import Change, OperatorDifference, StateDifference
    from pystate.ops.catalog.source_difference import SourceDifference

_MARKS = {"added": "+", "removed": "-", "changed": "~", "same": "=", "alike": "?"}
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "same": "dim", "alike": "dim"}


@dataclass(frozen=True)
class ChangeRow:
    """A state in two snapshots; without a state, the whole operator."""

    operator: OperatorDifference
    state: StateDifference | None = None

    @property
    def change(self) -> str:
        """How it changed."""
        return (self.operator if self.state is None else self.state).change.value

    @property
    def sides(self) -> list[StateFigures | None]:
        """The state before and after."""
        return [None, None] if self.state is None else [self.state.before, self.state.after]

    @property
    def known(self) -> list[StateFigures]:
        """The existing sides."""
        return [side for side in self.sides if side is not None]

    def told(self, arrow: str) -> str:
        """Return a description: the type of a state, or the changes of an operator."""
        if self.state is None:
            return "; ".join(_operator_changes(self.operator, arrow))
        return arrow.join(dict.fromkeys(f"{kind_text(side)} of {side.type}" for side in self.known))


def _arrow(look: Look) -> str:
    return " → " if look.unicode else " -> "


def _style(row: ChangeRow) -> str:
    return _STYLES[row.change]


def _sides(
    name: str, heading: str, kind: Kind, value: Callable[[StateFigures], int | None]
) -> tuple[Column[ChangeRow], ...]:
    """Return the columns of a figure before and after: one for display, two for programs."""

    def side(place: int) -> Callable[[ChangeRow], int | None]:
        def of(row: ChangeRow) -> int | None:
            figures = row.sides[place]
            return None if figures is None else value(figures)

        return of

    def changed(row: ChangeRow, look: Look) -> str:
        values = list(dict.fromkeys(value(figures) for figures in row.known))
        texts = [kind.shown(each, look) for each in values]
        if len(set(texts)) < len(texts):  # the same after rounding
            texts = [COUNT.shown(each, look) for each in values]
        return _arrow(look).join(texts)

    return (
        Column(name, side(1), kind, heading, shown=changed),
        Column(f"{name}_a", side(0), kind, plain=f"{name}_a", json=f"before.{name}"),
        Column(f"{name}_b", side(1), kind, plain=f"{name}_b", json=f"after.{name}"),
    )


CHANGES: TableSpec[ChangeRow] = TableSpec(
    (
        Column("mark", lambda row: _MARKS[row.change], TEXT, "", left=False, style=_style),
        Column("change", lambda row: row.change, TEXT, plain="change", json="change"),
        Column("operator", lambda row: row.operator.some.uid, TEXT, plain="operator"),
        Column(
            "state", lambda row: None if row.state is None else row.state.some.name, TEXT, "State",
            plain="state", json="name", least=8, style=_style,
        ),
        Column(
            "type", lambda row: row.told(" -> "), PHRASE, "Type", plain="type", least=10, most=72, priority=1,
            shown=lambda row, look: printable(row.told(_arrow(look))),
            style=lambda row: "yellow" if row.state is not None and row.state.type_changed else "",
        ),
        *_sides("entries", "Entries", COUNT, lambda figures: figures.entries),
        *_sides("bytes", "Bytes", SIZE, lambda figures: figures.size),
    ),
    plain_order=("change", "operator", "state", "entries_a", "entries_b", "bytes_a", "bytes_b", "type"),
)  # fmt: skip
"""`pystate savepoints diff`; JSON is an entry of an operator's `states`."""
SOURCES: TableSpec[SourceDifference] = TableSpec(
    (
        Column("change", lambda source: source.change.value, TEXT, plain="change", json="change"),
        Column("source", lambda source: source.uid, TEXT, plain="source", json="uid"),
        Column("position", lambda source: _positions(source, " -> "), TEXT, plain="position"),
    )
)
"""The sources below it; JSON is an entry of `sources`."""


def change_parts(
    before: Inspection,
    after: Inspection,
    differences: Sequence[OperatorDifference],
    sources: Sequence[SourceDifference],
    width: int,
    *,
    unicode: bool,
) -> Iterator[RenderableType]:
    """Yield the parts for a terminal of that width."""
    from rich.text import Text

    for name, side in (("A", before), ("B", after)):
        yield Text.assemble((f"{name}  ", "dim"), shortened(_title(side), width - 3, unicode=unicode))
    arrow = " → " if unicode else " -> "
    groups = [[ChangeRow(one, state) for state in one.states] for one in differences]
    tables = CHANGES.tables(groups, width, unicode=unicode)
    for one, lines, table in zip(differences, groups, tables, strict=True):
        yield Text("")
        yield Text.assemble(
            (f"{_MARKS[one.change.value]} {printable(one.some.uid)}", f"bold {_STYLES[one.change.value]}"),
            "".join(f"   {fact}" for fact in _operator_changes(one, arrow)),
        )
        if lines:
            yield table
    if sources:
        yield Text("")
        yield Text("sources", style="bold")
    for source in sources:
        mark, style = _MARKS[source.change.value], _STYLES[source.change.value]
        yield Text.assemble((f"{mark} {printable(source.uid)}", style), f"  {_positions(source, arrow)}")


def _title(inspection: Inspection) -> str:
    one = inspection.summary
    message = f"  {printable(one.message)}" if one.message else ""
    return f"{one.snapshot_id or one.uri}  {printable(one.job_name)}{message}"


def _operator_changes(one: OperatorDifference, arrow: str) -> Iterator[str]:
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
            yield printable(f"{name} {old}{arrow}{new}")
    if one.change.value in ("same", "alike"):
        yield one.change.value


def _positions(source: SourceDifference, arrow: str) -> str:
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
    rows = [ChangeRow(one, state) for one in differences for state in (None, *one.states)]
    lines = [f"a: {before.summary.uri}", f"b: {after.summary.uri}", "", *CHANGES.plain(rows)]
    return [*lines, "", *SOURCES.plain(sources)] if sources else lines


def key_line(change: Change, key: Any) -> str:
    """Return the line of a key that differs."""
    return f"{_MARKS[change.value]} {printable(repr(key))}"

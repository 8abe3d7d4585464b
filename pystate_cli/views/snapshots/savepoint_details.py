"""The contents of one savepoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.text.figures import UNKNOWN, format_size, local_time
from pystate_cli.console.formats import format_iso, printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.facts import flowing
from pystate_cli.tables.kinds import COUNT, SIZE, TEXT, Kind
from pystate_cli.tables.table_spec import TableSpec

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pystate.core.snapshot.metadata import CheckpointMetadata
    from pystate.core.snapshot.reading.inspection import OperatorFigures, StateFigures
    from pystate.core.snapshot.reading.timer_figures import TimerFigures
    from pystate.ops.catalog.snapshot_summary import SnapshotSummary
    from pystate.runtime.engines.micro_batch.spark.source_progress import SourceProgress


@dataclass(frozen=True)
class StateRow:
    """A state of an operator."""

    operator: OperatorFigures
    state: StateFigures

    @property
    def kind(self) -> str:
        """Its kind, for display."""
        return kind_text(self.state)


STATES: TableSpec[StateRow] = TableSpec(
    (
        Column("operator", lambda row: row.operator.uid, TEXT, plain="operator"),
        Column("state", lambda row: row.state.name, TEXT, "State", plain="state", json="name", least=8),
        Column("kind", lambda row: row.kind, TEXT, "Kind", plain="kind", style=lambda _: "cyan", priority=1),
        Column("type", lambda row: row.state.type, TEXT, "Type", plain="type", json="type", least=10, most=72),
        Column("entries", lambda row: row.state.entries, COUNT, "Entries", plain="entries", json="entries"),
        Column("size", lambda row: row.state.size, SIZE, "Bytes", plain="bytes", json="bytes"),
    ),
    plain_order=("operator", "state", "kind", "entries", "size", "type"),
)
"""`pystate savepoints inspect`; JSON is an entry of an operator's `states`."""


@dataclass(frozen=True)
class TimerRow:
    """The timers of an operator, of one service in one domain."""

    operator: OperatorFigures
    timers: TimerFigures


_END_OF_TIME = (1 << 63) - 1


def time_text(millis: int | None) -> str:
    """Return the time of a timer for display; a number if it is outside of the calendar."""
    if millis is None:
        return UNKNOWN
    if millis == _END_OF_TIME:
        return "the end of event time"
    try:
        return local_time(millis).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return str(millis)


_DOMAINS = {"EVENT_TIME": "event time", "PROCESSING_TIME": "processing time"}
_MILLIS = Kind(lambda value, _: time_text(value), lambda value: UNKNOWN if value is None else str(value), left=True)

TIMERS: TableSpec[TimerRow] = TableSpec(
    (
        Column("operator", lambda row: row.operator.uid, TEXT, plain="operator"),
        Column("service", lambda row: row.timers.service, TEXT, "Timer service", plain="timers", json="service", least=8),
        Column(
            "domain",
            lambda row: row.timers.domain,
            TEXT,
            "Domain",
            plain="domain",
            json="domain",
            shown=lambda row, _: _DOMAINS.get(row.timers.domain, row.timers.domain),
            style=lambda _: "cyan",
        ),
        Column("count", lambda row: row.timers.count, COUNT, "Timers", plain="count", json="count"),
        Column("next", lambda row: row.timers.next, _MILLIS, "Next", plain="next", json="next"),
    )
)
"""`pystate savepoints inspect`; JSON is an entry of an operator's `timers`."""


@dataclass(frozen=True)
class Inspection:
    """The inspection of one snapshot; `owner` is the id of the job that has claimed it, None for none."""

    summary: SnapshotSummary
    metadata: CheckpointMetadata
    operators: list[OperatorFigures]
    sources: list[SourceProgress]
    owner: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            **self.summary.to_json(),
            "operators": [operator.to_json() for operator in self.operators],
            "sources": [source.to_json() for source in self.sources],
            "claimed-by": self.owner,
            "pystate-version": self.metadata.pystate_version,
            "spark-version": self.metadata.spark_version,
            "configuration": self.metadata.configuration,
        }


def _facts(inspection: Inspection) -> list[tuple[str, str]]:
    one, metadata = inspection.summary, inspection.metadata
    parent = one.parent_id or one.parent or "none: the job began with nothing"
    facts = [
        ("path", one.uri),
        (one.kind, one.snapshot_id or UNKNOWN),
        ("job", f"{printable(one.job_name)} ({one.job_id})"),
        ("taken", local_time(one.timestamp_ms).strftime("%Y-%m-%d %H:%M:%S %Z")),
        (
            "number",
            f"{one.checkpoint_id}, after epoch {one.epoch}" if one.epoch >= 0 else f"{one.checkpoint_id}, before any epoch",
        ),
        ("size", format_size(one.size)),
        ("format", one.format.lower()),
        ("parallelism", f"{one.parallelism} (max {one.max_parallelism})"),
        ("parent", printable(parent)),
        ("code", one.code_fingerprint or UNKNOWN),
        ("written by", f"pystate {metadata.pystate_version}, Spark {metadata.spark_version}"),
    ]
    if one.message:
        facts.insert(1, ("message", printable(one.message)))
    if inspection.owner is not None:
        facts.append(("claimed by", f"job {inspection.owner}, which deletes it when it has newer checkpoints"))
    return facts


def details_parts(inspection: Inspection, width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Yield the parts for a terminal of that width."""
    from rich.text import Text

    yield from _fact_lines(_facts(inspection))
    groups = [[StateRow(operator, state) for state in operator.states] for operator in inspection.operators]
    tables = STATES.tables(groups, width, unicode=unicode)
    for operator, lines, table in zip(inspection.operators, groups, tables, strict=True):
        yield Text("")
        yield from flowing((Text(text, style=style) for text, style in _operator_facts(operator)), width)
        yield table if lines else Text("no state", style="dim")
        if operator.timers:
            yield Text("")
            yield from TIMERS.tables([[TimerRow(operator, one) for one in operator.timers]], width, unicode=unicode)
    yield Text("")
    yield Text("Sources", style="bold")
    if not inspection.sources:
        yield Text("nothing has been read", style="dim")
    yield from _fact_lines([(source.uid, source.words) for source in inspection.sources])
    if inspection.metadata.configuration:
        yield Text("")
        yield Text("Configuration", style="bold")
        for key, value in sorted(inspection.metadata.configuration.items()):
            yield Text(printable(f"{key} = {value}"), style="dim")


def _fact_lines(facts: Sequence[tuple[str, str]]) -> Iterator[RenderableType]:
    from rich.text import Text

    label = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        yield Text.assemble((f"{printable(name):<{label}}  ", "dim"), printable(value))


def _operator_facts(operator: OperatorFigures) -> Iterator[tuple[str, str]]:
    yield printable(operator.uid), "bold"
    if operator.name != operator.uid:
        yield printable(operator.name), ""
    yield f"parallelism {operator.parallelism} (max {operator.max_parallelism})", "dim"
    if operator.key_type is not None:
        yield f"keys {printable(operator.key_type)}", "dim"
    yield format_size(operator.size), "dim"


def kind_text(state: StateFigures) -> str:
    """Return a state's kind, for display."""
    return f"{state.kind.lower()}, ttl" if state.ttl else state.kind.lower()


def plain_details(inspection: Inspection) -> list[str]:
    """Return the lines for a pipe."""
    facts = [*_facts(inspection), ("taken", format_iso(inspection.summary.timestamp_ms))]
    told = dict(facts)  # the instant with its offset replaces the local one
    lines = [f"{name}: {value}" for name, value in told.items()]
    rows = [StateRow(operator, state) for operator in inspection.operators for state in operator.states]
    lines.append("")
    for operator in inspection.operators:
        lines.append(f"operator {', '.join(text for text, _ in _operator_facts(operator))}")
    if rows:
        lines += ["", *STATES.plain(rows)]
    timers = [TimerRow(operator, one) for operator in inspection.operators for one in operator.timers]
    if timers:
        lines += ["", *TIMERS.plain(timers)]
    if inspection.sources:
        lines += ["", *(f"source {printable(source.uid)}: {printable(source.words)}" for source in inspection.sources)]
    if inspection.metadata.configuration:
        settings = sorted(inspection.metadata.configuration.items())
        lines += ["", *(printable(f"configuration {key} = {value}") for key, value in settings)]
    return lines

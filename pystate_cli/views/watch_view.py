"""The view of `pystate watch`: a job at a glance, redrawn periodically."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.common.text.figures import UNKNOWN, format_count, format_millis, format_size, format_watermark
from pystate.common.time import current_time_ms
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.console.formats import known_epoch, printable
from pystate_cli.sampling.job_history import JobSample
from pystate_cli.tables.bars import magnitude, progress, sparkline
from pystate_cli.tables.facts import flowing
from pystate_cli.tables.fitted_table import shortened
from pystate_cli.views.job_list import STATE_STYLES
from pystate_cli.views.measured import STATUS_STYLES, status_marks
from pystate_cli.views.snapshots.checkpoint_list import SHORT_KINDS, CheckpointRow, summary_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_LABEL, _FIGURE = 10, 15
_SHORTEST_NAME = 12
_SPARK_STYLES = {"rows in": "green", "rows out": "cyan", "epoch time": "yellow", "backlog": "magenta"}
_FEWEST_CHECKPOINTS = 3
_SHORTEST_BAR, _LONGEST_BAR = 5, 18


def watch_view(look: JobSample, width: int, height: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the view for a terminal of that size.

    Args:
        look: The sample.
        width: Columns of the terminal.
        height: The lines of the terminal; operators and checkpoints share the rest.
        unicode: Whether it shows more than ASCII.
        now: Milliseconds since 1970.
    """
    from rich.console import Group
    from rich.text import Text

    now = current_time_ms() if now is None else now
    head = [*_title(look, width, now, unicode=unicode), Text("")]
    head += _restore(look, width, unicode=unicode)
    head += _figures(look, width, now, unicode=unicode)
    rows = [CheckpointRow.of(entry) for entry in look.statistics.history]
    room = max(0, height - len(head) - 2)  # a gap and the line of counts
    operators = _operators(look, width, unicode=unicode)
    # checkpoints tell more than the tenth operator does
    for_operators = min(len(operators), max(0, room - min(len(rows), _FEWEST_CHECKPOINTS) - 2))
    if for_operators > 1:
        head += [Text(""), *operators[:for_operators]]
        room -= for_operators + 1
    title = Text("checkpoints", style="bold")
    title.append(f"  {summary_line(look.statistics.counts)}", style="not bold dim")
    head += [Text(""), title]
    checkpoints = _checkpoints(rows[: max(0, room - 2)], width, now, unicode=unicode)
    return Group(*[*head, *checkpoints][: max(1, height)])


def _title(look: JobSample, width: int, now: int, *, unicode: bool) -> list[Text]:
    from rich.text import Text

    known = look.progress
    state = known.state.value
    room = width - len(look.job_id) - 2
    titles = [Text(shortened(printable(known.name), room if room >= _SHORTEST_NAME else width, unicode=unicode))]
    titles[0].stylize("bold")
    if room >= _SHORTEST_NAME:
        titles[0].append(" " * (width - titles[0].cell_len - len(look.job_id)) + look.job_id, style="dim not bold")
    else:
        titles.append(Text(look.job_id, style="dim"))
    end = known.end_time if known.end_time >= 0 else now
    facts = [
        Text(f"● {state}" if unicode else state, style=STATE_STYLES.get(state, "dim")),
        Text(f"uptime {format_millis(end - known.start_time)}"),
        Text("real-time engine" if _is_real_time(known) else f"epoch {_epoch(known.epoch)}"),
    ]
    if look.operators:
        widths = sorted({operator.parallelism for operator in look.operators})
        most = f" (max {look.max_parallelism})" if look.max_parallelism > 0 else ""
        facts.append(Text(f"parallelism {', '.join(map(str, widths))}{most}"))
    if known.attempt:
        facts.append(Text(f"attempt {known.attempt}", style="yellow"))
    return [*titles, *flowing(facts, width)]


def _is_real_time(known: JobProgress) -> bool:
    """Return whether the job has no epochs."""
    return known.engine is ExecutionEngine.REAL_TIME


def _epoch(number: int | None) -> str:
    known = known_epoch(number)
    return UNKNOWN if known is None else format_count(known)


def _restore(look: JobSample, width: int, *, unicode: bool) -> list[Text]:
    """Return the progress of the state's restore, while there is one."""
    from rich.text import Text

    restore = look.progress.restore
    if restore is None:
        return []
    done, total = restore.bytes or 0, restore.total or 0
    figures = f"{format_size(done)} of {format_size(total)}"
    line = _label("restore")
    source = f"checkpoint {restore.checkpoint_id}"
    line.append(f"{source:>{_FIGURE}}  ")
    full, rest = progress(done, total, max(8, width - line.cell_len - len(figures) - 2), unicode=unicode)
    line.append(full, style="magenta")
    line.append(rest, style="dim")
    line.append(f"  {figures}")
    return [line, Text("")]


def _figures(look: JobSample, width: int, now: int, *, unicode: bool) -> list[Text]:
    known, epochs = look.progress, look.epochs
    last = epochs[-1] if epochs else None
    lines = [
        _line("rows in", _rate(look.rate_in), look.rate_in, f"{format_count(known.records_in)} in all"),
        _line("rows out", _rate(look.rate_out), look.rate_out, f"{format_count(known.records_out)} in all"),
    ]
    if not _is_real_time(known):
        remark = _epoch_summary(epochs, is_over=known.end_time >= 0)
        lines.append(_line("epoch time", format_millis(last), epochs, remark))
    backlog = look.backlog[-1] if look.backlog else None
    if backlog is not None:
        lines.append(_line("backlog", f"{format_count(int(backlog))} rows", look.backlog, _trend(look.backlog)))
    drawn = [_spark(*line, width, unicode=unicode) for line in lines]
    if known.watermark is not None:
        drawn.append(_event_time(known, now, width, unicode=unicode))
    if look.busy is not None:
        drawn.append(_busy(look.busy, _epoch_under_way(known), width, unicode=unicode))
    return drawn


def _line(
    label: str, figure: str, values: Sequence[float | None], remark: str
) -> tuple[str, str, Sequence[float | None], str]:
    return label, figure, values, remark


def _spark(label: str, figure: str, values: Sequence[float | None], remark: str, width: int, *, unicode: bool) -> Text:
    line = _label(label)
    line.append(f"{figure:>{_FIGURE}}  ", style="bold")
    remark_width = 24 if width >= 72 else 0
    room = max(6, width - line.cell_len - (remark_width + 2 if remark_width else 0))
    line.append(sparkline(values, room, unicode=unicode), style=_SPARK_STYLES[label])
    if remark_width:
        line.append(f"  {shortened(remark, remark_width, unicode=unicode)}", style="dim")
    return line


def _event_time(known: JobProgress, now: int, width: int, *, unicode: bool) -> Text:
    """Return the lowest watermark of all tasks, and the task that has it."""
    line = _label("watermark")
    line.append(f"  {format_watermark(known.watermark, now)}", style="bold")
    if known.watermark_task is not None:
        room = width - line.cell_len - 5
        if room >= _SHORTEST_NAME:
            line.append(f"  in {shortened(printable(known.watermark_task), room, unicode=unicode)}", style="dim")
    return line


def _epoch_under_way(known: JobProgress) -> str:
    if _is_real_time(known):
        return ""
    running = known.epoch_running
    return "between two epochs" if running is None else f"epoch since {format_millis(running)}"


def _busy(busy: float, remark: str, width: int, *, unicode: bool) -> Text:
    line = _label("busy")
    line.append(f"{f'{busy:.0%}':>{_FIGURE}}  ", style="bold")
    remark_width = 24 if width >= 72 else 0
    room = max(6, width - line.cell_len - (remark_width + 2 if remark_width else 0))
    full, rest = progress(busy, 1.0, room, unicode=unicode)
    line.append(full, style="red" if busy > 0.95 else "green")
    line.append(rest, style="dim")
    if remark_width:
        line.append(f"  {remark}", style="dim")
    return line


def _operators(look: JobSample, width: int, *, unicode: bool) -> list[Text]:
    """Return a heading and a line per vertex."""
    from rich.text import Text

    if not look.operators:
        return []
    times = "×" if unicode else "x"
    figures = [
        (
            f"{times}{operator.parallelism}",
            f"{_rate((operator.rate_in,))} in",
            f"{_rate((operator.rate_out,))} out",
        )
        for operator in look.operators
    ]
    sizes = [max(len(row[place]) for row in figures) for place in range(3)]
    most = max((operator.rate_in or 0 for operator in look.operators), default=0)
    bar = 16 if width >= 110 else 8 if width >= 76 else 0
    room = max(8, width - sum(sizes) - 6 - (bar + 2 if bar else 0))
    name_width = min(room, max(len(printable(operator.name)) for operator in look.operators))
    lines = [Text("operators", style="bold")]
    for operator, row in zip(look.operators, figures, strict=True):
        name = shortened(printable(operator.name), name_width, unicode=unicode)
        line = Text(
            f"{name:<{name_width}}  ", style=STATE_STYLES.get(operator.status, "") if operator.status != "RUNNING" else ""
        )
        line.append(f"{row[0]:>{sizes[0]}}  ", style="dim")
        line.append(f"{row[1]:>{sizes[1]}}  {row[2]:>{sizes[2]}}")
        if bar:
            line.append(f"  {magnitude(operator.rate_in, most, bar, unicode=unicode)}", style="green")
        lines.append(line)
    return lines


@dataclass(frozen=True)
class _Bars:
    """A column of numbers with bars."""

    title: str
    style: str
    value: Callable[[CheckpointRow, int], int | None]
    write: Callable[[int | None], str]


def _checkpoints(rows: Sequence[CheckpointRow], width: int, now: int, *, unicode: bool) -> list[Text]:
    """Return a heading and a line per checkpoint: acknowledgements, duration, sizes and alignment with bars."""
    from rich.text import Text

    if not rows:
        return []
    marks = status_marks(unicode=unicode)
    id_width = max(2, *(len(str(row.checkpoint_id)) for row in rows))
    mark_width = max(map(len, marks.values()))
    acks = [f"{row.acknowledged}/{row.subtasks}" for row in rows]
    ack_width = max(3, *map(len, acks))
    fixed = id_width + mark_width + 8
    columns = [column for column in _COLUMNS if column is not _IN_FLIGHT or any(row.measured.persisted for row in rows)]
    while True:
        figures = {column.title: [column.write(column.value(row, now)) for row in rows] for column in columns}
        sizes = {title: max(len(title), *map(len, texts)) for title, texts in figures.items()}
        taken = fixed + ack_width + 1 + sum(2 + size + 1 for size in sizes.values())
        bar = (width - taken) // (len(columns) + 1)
        if bar >= _SHORTEST_BAR or not columns:
            break
        columns.remove(next(column for column in _DROPPED if column in columns))
    bar = max(3, min(_LONGEST_BAR, bar))
    heading = Text(f"{'ID':>{id_width}} {'':<{mark_width}} kind  {'ack':<{ack_width + 1 + bar}}", style="dim")
    for column in columns:
        heading.append(f"  {column.title:>{sizes[column.title]}} {'':<{bar}}")
    heading.rstrip()
    # a failed one lasted until its timeout, which would make the other bars vanish
    scale = {
        column.title: max(((column.value(row, now) or 0) for row in rows if row.status != "FAILED"), default=0)
        for column in columns
    }
    lines = [heading]
    for number, row in enumerate(rows):
        line = Text(style="dim" if row.discarded else "")
        line.append(f"{row.checkpoint_id:>{id_width}} ")
        line.append(f"{marks.get(row.status, '?'):<{mark_width}} ", style=STATUS_STYLES.get(row.status, ""))
        line.append(f"{SHORT_KINDS[row.type]:<4}  ", style="cyan" if row.is_savepoint else "")
        line.append(f"{acks[number]:>{ack_width}} ")
        full, rest = progress(row.acknowledged, row.subtasks, bar, unicode=unicode)
        line.append(full, style=STATUS_STYLES.get(row.status, ""))
        line.append(rest, style="dim")
        for column in columns:
            line.append(f"  {figures[column.title][number]:>{sizes[column.title]}} ")
            drawn = magnitude(column.value(row, now), scale[column.title], bar, unicode=unicode)
            line.append(f"{drawn:<{bar}}", style="red" if row.status == "FAILED" else column.style)
        line.rstrip()
        lines.append(line)
        waits = row.waits(now)
        if waits is not None:
            lines.append(Text(f"{'':>{id_width}} {waits}"[:width], style="yellow"))
    return lines


_IN_FLIGHT = _Bars("in flight", "green", lambda row, _: row.measured.persisted, format_size)
_COLUMNS = (
    _Bars("took", "yellow", lambda row, now: row.duration_so_far(now), format_millis),
    _Bars("size", "blue", lambda row, _: row.measured.full_size, format_size),
    _Bars("written", "cyan", lambda row, _: row.measured.incremental_size, format_size),
    _Bars("align", "magenta", lambda row, _: row.measured.alignment, format_millis),
    _IN_FLIGHT,
)
_DROPPED = (_COLUMNS[2], _COLUMNS[3], _IN_FLIGHT, _COLUMNS[1], _COLUMNS[0])


def _label(text: str) -> Text:
    from rich.text import Text

    line = Text()
    return line.append(f"{text:<{_LABEL}}", style="dim")


def _rate(rates: Sequence[float | None]) -> str:
    rate = rates[-1] if rates else None
    return f"{UNKNOWN if rate is None else format_count(round(rate))} rows/s"


def _epoch_summary(epochs: Sequence[int], *, is_over: bool) -> str:
    if not epochs:
        return "" if is_over else "no epoch has ended yet"
    ordered = sorted(epochs)
    return f"p50 {format_millis(ordered[len(ordered) // 2])}, max {format_millis(ordered[-1])}"


def _trend(backlog: Sequence[float | None]) -> str:
    known = [value for value in backlog[-30:] if value is not None]
    if len(known) < 2 or known[0] == known[-1]:
        return "steady"
    return "growing" if known[-1] > known[0] else "shrinking"

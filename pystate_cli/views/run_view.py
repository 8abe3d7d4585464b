"""The live view of an attached run on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.text.figures import UNKNOWN, format_count, format_millis, format_size, format_watermark
from pystate.common.time import current_time_ms
from pystate.runtime.rest.own_job_messages import RestoreProgress
from pystate_cli.console.formats import known_epoch, printable
from pystate_cli.console.word_wrap import folded, wrapped
from pystate_cli.sampling.run_sample import RunSample
from pystate_cli.tables.facts import flowing
from pystate_cli.views.job_list import STATE_STYLES
from pystate_cli.views.snapshots.checkpoint_list import CHECKPOINTS, CheckpointRow, summary_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_CHECKPOINTS = 3
_BAR_WIDTH = 24
_INDENT = "  "


def run_view(sample: RunSample, width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the view for a terminal of that width: job, figures, last checkpoints."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    now = current_time_ms() if now is None else now
    state = sample.progress.state.value
    title = [Text(printable(sample.progress.name), style="bold"), Text(sample.job_id, style="dim")]
    facts = [
        Text(f"● {state}" if unicode else state, style=STATE_STYLES.get(state, "dim")),
        *(Text(fact) for fact in _facts(sample, now)),
    ]
    parts: list[RenderableType] = [Rule(style="dim", characters="─" if unicode else "-")]
    parts += [*flowing(title, width, gap=2), *flowing(facts, width)]
    restore = sample.progress.restore
    if restore:
        parts.append(_restore_bar(restore, unicode=unicode))
    statistics = sample.statistics
    rows = [] if statistics is None else [CheckpointRow.of(entry) for entry in statistics.history[:_CHECKPOINTS]]
    if statistics is not None:
        summary = f"{'checkpoints: ' if rows else ''}{summary_line(statistics.counts)}"
        parts += [folded(line) for line in wrapped(summary, width, _INDENT)]
    if rows:
        parts.append(CHECKPOINTS.table(rows, width, unicode=unicode, now=now))
    return Group(*parts)


def _restore_bar(restore: RestoreProgress, *, unicode: bool) -> Text:
    from rich.text import Text

    done, total = restore.bytes or 0, restore.total or 0
    filled = _BAR_WIDTH * done // total if total else 0
    full, empty = ("━", "━") if unicode else ("#", "-")
    line = Text(f"restoring checkpoint {restore.checkpoint_id}  ")
    line.append(full * filled, style="cyan")
    line.append(empty * (_BAR_WIDTH - filled), style="dim")
    return line.append(f"  {format_size(done)} of {format_size(total)}")


def _facts(sample: RunSample, now: int) -> list[str]:
    progress = sample.progress
    epoch = known_epoch(progress.epoch)
    facts = [
        f"uptime {format_millis((progress.end_time if progress.state.is_terminal else now) - progress.start_time)}",
        f"epoch {UNKNOWN if epoch is None else epoch}",
        f"in {_rate(sample.rate_in)} rows/s",
        f"out {_rate(sample.rate_out)} rows/s",
        f"rows in {format_count(progress.records_in)}",
        f"rows out {format_count(progress.records_out)}",
    ]
    if progress.watermark is not None:
        facts.append(f"watermark {format_watermark(progress.watermark, now)}")
    if progress.attempt:
        facts.insert(1, f"attempt {progress.attempt}")
    return facts


def _rate(rate: float | None) -> str:
    return UNKNOWN if rate is None else format_count(round(rate))

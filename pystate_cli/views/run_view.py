"""What an attached run shows of its job on a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.formats import UNKNOWN, format_count, format_millis, format_size, printable
from pystate_cli.views.checkpoint_list import CheckpointRow, summary_line, table
from pystate_cli.views.facts import flowing
from pystate_cli.views.job_list import STATE_STYLES

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_CHECKPOINTS = 3
_WINDOW_SECONDS = 5.0
_BAR_WIDTH = 24


class RateMeter:
    """Rows per second from a counter, over the last seconds: epochs come in bursts.

    Args:
        window: Seconds.
    """

    def __init__(self, window: float = _WINDOW_SECONDS) -> None:
        self._window = window
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, moment: float, count: int | None, *, under_way: bool = False) -> None:
        """Take a sample; a counter that went back begins anew.

        Args:
            moment: Monotonic seconds.
            count: What has been counted; None where it isn't known.
            under_way: More is on its way that is counted at once: an epoch runs. Until it ends the rate stays as the last
                ones have left it.
        """
        if count is None or (under_way and self._samples and count == self._samples[-1][1]):
            return
        if self._samples and count < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((moment, count))
        while len(self._samples) > 2 and self._samples[1][0] <= moment - self._window:
            self._samples.popleft()

    @property
    def rate(self) -> float | None:
        """Rows per second; None before the second sample."""
        if len(self._samples) < 2:
            return None
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last - first) if last > first else None


@dataclass(frozen=True)
class RunSample:
    """What is known of a job at a moment.

    Attributes:
        job_id: The job.
        progress: The answer to GET /pystate/jobs/:id/progress.
        rate_in: Rows read per second.
        rate_out: Rows written per second.
        statistics: The answer to GET /jobs/:id/checkpoints.
    """

    job_id: str
    progress: Mapping[str, Any]
    rate_in: float | None
    rate_out: float | None
    statistics: Mapping[str, Any]


def run_view(sample: RunSample, width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the view for a terminal of that width: job, figures, last checkpoints."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    now = int(time.time() * 1000) if now is None else now
    state = str(sample.progress["state"])
    title = Text(printable(str(sample.progress["name"])), style="bold")
    title.append(f"  {sample.job_id}", style="dim not bold")
    facts = [
        Text(f"● {state}" if unicode else state, style=STATE_STYLES.get(state, "dim")),
        *(Text(fact) for fact in _facts(sample, now)),
    ]
    parts: list[RenderableType] = [Rule(style="dim", characters="─" if unicode else "-"), title, *flowing(facts, width)]
    restore = sample.progress.get("restore")
    if restore:
        parts.append(_restore_bar(restore, unicode=unicode))
    rows = [CheckpointRow.of(entry) for entry in sample.statistics.get("history", ())][:_CHECKPOINTS]
    counts = sample.statistics.get("counts")
    if counts:
        parts.append(Text(f"checkpoints: {summary_line(sample.statistics)}" if rows else summary_line(sample.statistics)))
    if rows:
        parts.append(table(rows, width, unicode=unicode, now=now))
    return Group(*parts)


def _restore_bar(restore: Mapping[str, Any], *, unicode: bool) -> Text:
    from rich.text import Text

    done, total = int(restore["bytes"]), int(restore["total"])
    filled = _BAR_WIDTH * done // total if total else 0
    full, empty = ("━", "━") if unicode else ("#", "-")
    line = Text(f"restoring checkpoint {restore['checkpoint-id']}  ")
    line.append(full * filled, style="cyan")
    line.append(empty * (_BAR_WIDTH - filled), style="dim")
    return line.append(f"  {format_size(done)} of {format_size(total)}")


def _facts(sample: RunSample, now: int) -> list[str]:
    progress = sample.progress
    epoch = progress.get("epoch")
    facts = [
        f"uptime {format_millis(now - progress['start-time'])}",
        f"epoch {UNKNOWN if epoch is None or epoch < 0 else epoch}",
        f"in {_rate(sample.rate_in)} rows/s",
        f"out {_rate(sample.rate_out)} rows/s",
        f"rows in {format_count(progress.get('records-in'))}",
        f"rows out {format_count(progress.get('records-out'))}",
    ]
    if progress.get("attempt"):
        facts.insert(1, f"attempt {progress['attempt']}")
    return facts


def _rate(rate: float | None) -> str:
    return UNKNOWN if rate is None else format_count(round(rate))

"""A job as a notebook shows it: a table and a plot that follow the job without holding up the cell."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.common.text.figures import format_count, format_millis, format_size, format_watermark
from pystate.common.text.html_view import html_table, plain_table, svg_plot
from pystate.common.time import current_time_ms
from pystate.common.user_code.notebook import live_display
from pystate.core.metrics.rate_meter import RateMeter

_KEPT = 120
_LOOK_S = 1.0


@dataclass(frozen=True)
class JobFacts:
    """A job at one moment.

    Attributes:
        name: Its name.
        state: Its status.
        attempt: The number of its execution attempt, from 0.
        records_in: Rows read; None if unknown.
        records_out: Rows written; None if unknown.
        under_way: Whether an epoch runs, whose rows aren't counted yet.
        watermark: The lowest watermark in ms since 1970; None if no task has one.
        checkpoints: The statistics of its checkpoints, as in REST.
        failure: Why it failed, or was restarted; None if neither.
    """

    name: str
    state: JobStatus
    attempt: int
    records_in: int | None
    records_out: int | None
    under_way: bool = False
    watermark: int | None = None
    checkpoints: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None


class JobView:
    """The live view of one job. All displays of the job are updated by one thread, until the job has ended.

    Args:
        job_id: The job.
        look: Returns the job's facts.
        wait_for_end: Waits so many seconds for the job's end, and returns whether it has come.
        clock: The monotonic clock in seconds.
        now: The processing time, ms since 1970.
    """

    def __init__(
        self,
        job_id: str,
        look: Callable[[], JobFacts],
        wait_for_end: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = current_time_ms,
    ) -> None:
        self._job_id = job_id
        self._look, self._wait_for_end, self._clock, self._now = look, wait_for_end, clock, now
        self._meters = (RateMeter(), RateMeter())
        self._rates: tuple[deque[float | None], ...] = (deque(maxlen=_KEPT), deque(maxlen=_KEPT))
        self._displays: list[Callable[[str, str], None]] = []
        self._thread: threading.Thread | None = None
        self._over = False
        self._lock = threading.Lock()
        self._facts = look()

    def sample(self) -> None:
        """Look at the job, and remember its rates."""
        facts, moment = self._look(), self._clock()
        with self._lock:
            self._facts = facts
            for meter, rates, count in zip(self._meters, self._rates, (facts.records_in, facts.records_out), strict=True):
                meter.add(moment, count, under_way=facts.under_way)
                rates.append(meter.rate)

    def follow(self) -> None:
        """Sample the job in the background until its end; does nothing if that is done already."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="job-view", daemon=True)
        self._thread.start()

    def display(self) -> None:
        """Show the job in the cell that is executed, and keep what is shown up to date."""
        update = live_display(self.html(), self.text())
        if update is None:
            return
        with self._lock:
            self._displays.append(update)
            over = self._over
        if over:  # the last update may have come between the two
            update(self.html(), self.text())
        self.follow()

    def html(self) -> str:
        """Return the table and the plot."""
        with self._lock:
            rows, facts = self._rows(), self._facts
            read, written = (list(rates) for rates in self._rates)
        plots = "".join(
            f"<div><small>{label}</small><br>{svg_plot(values, label, color)}</div>"
            for label, values, color in (
                ("rows/s read", read, "#1f77b4"),
                ("rows/s written", written, "#2ca02c"),
            )
            if any(value is not None for value in values)
        )
        return f"<div>{html_table((facts.name, facts.state.value), rows, f'job {self._job_id}')}{plots}</div>"

    def text(self) -> str:
        """Return the table as text."""
        with self._lock:
            return plain_table((self._facts.name, self._facts.state.value), [*self._rows(), ("job", self._job_id)])

    def _run(self) -> None:
        over = False
        while not over:
            over = self._wait_for_end(_LOOK_S)
            self.sample()
            html, text = self.html(), self.text()
            with self._lock:
                self._over, displays = over, list(self._displays)
            for update in displays:
                update(html, text)

    def _rows(self) -> list[tuple[str, str]]:
        facts = self._facts
        counts = facts.checkpoints.get("counts", {})
        latest = (facts.checkpoints.get("latest") or {}).get("completed")
        read, written = self._rates
        rows = [
            ("rows read", _rows_text(facts.records_in, read)),
            ("rows written", _rows_text(facts.records_out, written)),
            ("watermark", format_watermark(facts.watermark, self._now())),
            ("checkpoints", f"{counts.get('completed', 0)} completed, {counts.get('failed', 0)} failed"),
        ]
        if latest:
            took, size = format_millis(latest["end_to_end_duration"]), format_size(latest["state_size"])
            rows.append(("latest checkpoint", f"{latest['id']}, {took}, {size}"))
        if facts.attempt:
            rows.append(("restarts", str(facts.attempt)))
        if facts.failure is not None:
            rows.append(("failure", facts.failure))
        return rows


def _rows_text(count: int | None, rates: deque[float | None]) -> str:
    rate = rates[-1] if rates else None
    return format_count(count) + ("" if rate is None else f" ({rate:,.0f}/s)")

"""The list of jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.formats import format_flink_time, format_millis, format_moment

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 62  # of the flink client's rules
_STYLES = {
    "RUNNING": "green",
    "FINISHED": "cyan",
    "CANCELED": "yellow",
    "CANCELLING": "yellow",
    "FAILED": "bold red",
    "FAILING": "bold red",
    "RESTARTING": "magenta",
}
_WIDE = 100


@dataclass(frozen=True)
class JobGroups:
    """Entries of GET /jobs/overview; None for a group nobody asked for."""

    running: list[dict[str, Any]] | None
    scheduled: list[dict[str, Any]] | None
    terminated: list[dict[str, Any]] | None

    def all(self) -> list[dict[str, Any]]:
        """Return the entries of all groups."""
        return [*(self.running or ()), *(self.scheduled or ()), *(self.terminated or ())]


def plain_lines(groups: JobGroups) -> list[str]:
    """Return the lines of the flink client, for programs that read them."""
    lines: list[str] = []
    blocks = (
        (groups.running, " Running/Restarting Jobs ", "No running jobs."),
        (groups.scheduled, " Scheduled Jobs ", "No scheduled jobs."),
    )
    for jobs, title, none in blocks:
        if jobs:
            lines += _block(title, jobs)
        elif jobs is not None:
            lines.append(none)
    if groups.terminated:
        lines += _block(" Terminated Jobs ", groups.terminated)
    return lines


def _block(title: str, jobs: list[dict[str, Any]]) -> list[str]:
    left = (_WIDTH - len(title)) // 2
    rule = f"{'-' * left}{title}{'-' * (_WIDTH - len(title) - left)}"
    entries = [f"{format_flink_time(job['start-time'])} : {job['jid']} : {job['name']} ({job['state']})" for job in jobs]
    return [rule, *entries, "-" * _WIDTH]


def table(groups: JobGroups, width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    jobs = groups.all()
    if not jobs:
        asked = [name for name, group in (("running", groups.running), ("scheduled", groups.scheduled)) if group is not None]
        return Text(f"No {' or '.join(asked)} jobs." if groups.terminated is None else "No jobs.")
    now = int(time.time() * 1000) if now is None else now
    wide = width >= _WIDE
    grid = Table(box=box.SIMPLE_HEAD if unicode else box.ASCII2, pad_edge=False, show_edge=False, header_style="bold")
    grid.add_column("Job ID", no_wrap=True, min_width=32)
    grid.add_column("Name", no_wrap=True, overflow="ellipsis", max_width=48)
    grid.add_column("State", no_wrap=True)
    grid.add_column("Started", no_wrap=True, justify="right")
    grid.add_column("Duration", no_wrap=True, justify="right")
    if wide:
        grid.add_column("Tasks", no_wrap=True, justify="right")
    for job in jobs:
        state = job["state"]
        mark = "● " if unicode and wide else ""
        started = format_moment(job["start-time"], now)
        row = [
            job["jid"],
            Text(job["name"]),
            Text(f"{mark}{state}", style=_STYLES.get(state, "dim")),
            started if wide or len(started) <= 8 else started[5:16],
            format_millis(job["duration"]),
        ]
        if wide:
            row.append(f"{job['tasks']['running']}/{job['tasks']['total']}")
        grid.add_row(*row)
    return grid

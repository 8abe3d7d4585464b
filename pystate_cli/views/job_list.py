"""The list of jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.formats import format_flink_time, format_millis, printable
from pystate_cli.views.fitted_table import Column, Layout, Line, fitted_table, layouts
from pystate_cli.views.measured import moment_cell

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 62  # of the flink client's rules
STATE_STYLES = {
    "RUNNING": "green",
    "FINISHED": "cyan",
    "CANCELED": "yellow",
    "CANCELLING": "yellow",
    "FAILED": "bold red",
    "FAILING": "bold red",
    "RESTARTING": "magenta",
}
_COLUMNS = (
    Column("id", "Job ID", left=True),  # half an id would be of no use
    Column("name", "Name", left=True, least=8),
    Column("state", "State", left=True),
    Column("started", "Started"),
    Column("duration", "Duration"),
    Column("tasks", "Tasks"),
)


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
    entries = [
        f"{format_flink_time(job['start-time'])} : {job['jid']} : {printable(job['name'])} ({job['state']})" for job in jobs
    ]
    return [rule, *entries, "-" * _WIDTH]


def table(groups: JobGroups, width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width."""
    from rich.text import Text

    jobs = groups.all()
    if not jobs:
        asked = [name for name, group in (("running", groups.running), ("scheduled", groups.scheduled)) if group is not None]
        return Text(f"No {' or '.join(asked)} jobs." if groups.terminated is None else "No jobs.")
    now = int(time.time() * 1000) if now is None else now
    return fitted_table(
        layouts(_COLUMNS, extra=("tasks",), dropped=("duration", "started")),
        lambda layout: [_line(job, now, layout, unicode=unicode) for job in jobs],
        width,
        unicode=unicode,
    )


def _line(job: dict[str, Any], now: int, layout: Layout, *, unicode: bool) -> Line:
    state = str(job["state"])
    restarts = (job.get("pystate") or {}).get("restarts", 0)
    told = f"{state} ({restarts})" if state == "RESTARTING" and restarts else state
    cells = {
        "id": job["jid"],
        "name": printable(job["name"]),
        "state": f"● {told}" if unicode and layout.wide else told,
        "started": moment_cell(job["start-time"], layout, now),
        "duration": format_millis(job["duration"]),
        "tasks": f"{job['tasks']['running']}/{job['tasks']['total']}",
    }
    return Line(cells, {"state": STATE_STYLES.get(state, "dim")})

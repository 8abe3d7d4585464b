"""The list of jobs as a table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import format_millis, printable
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, layouts
from pystate_cli.views.job_lines import JobGroups
from pystate_cli.views.measured import moment_cell

if TYPE_CHECKING:
    from rich.console import RenderableType

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
    Column("name", "Name", left=True, least=8, most=96),
    Column("state", "State", left=True),
    Column("started", "Started"),
    Column("duration", "Duration"),
    Column("tasks", "Tasks"),
)


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

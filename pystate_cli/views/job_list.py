"""The list of jobs as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.runtime.rest.job_messages import JobDetails
from pystate_cli.console.formats import printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import INSTANT, MILLIS, TEXT, Look
from pystate_cli.tables.table_spec import TableSpec
from pystate_cli.views.job_lines import JobGroups, embedded_in

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


def _shown_state(job: JobDetails, look: Look) -> str:
    state, restarts = job.state.value, job.pystate.restarts
    told = f"{state} ({restarts})" if state == "RESTARTING" and restarts else state
    return f"● {told}" if look.unicode and look.wide else told


JOBS: TableSpec[JobDetails] = TableSpec(
    (
        Column("id", lambda job: job.jid, TEXT, "Job ID", json="jobId"),  # a partial id would be useless
        Column("name", lambda job: job.name, TEXT, "Name", json="name", least=8, most=96,
               shown=lambda job, _: printable(job.name)),
        Column("state", lambda job: job.state.value, TEXT, "State", json="state", shown=_shown_state,
               style=lambda job: STATE_STYLES.get(job.state.value, "dim")),
        Column("started", lambda job: job.start_time, INSTANT, "Started", json="startTime", priority=2),
        Column("duration", lambda job: job.duration, MILLIS, "Duration", json="duration", priority=1),
        Column("embedded", embedded_in, TEXT, "Embedded in", json="embedded", only_if_any=True, least=16, priority=3),
        Column("tasks", lambda job: f"{job.tasks.running}/{job.tasks.total}", TEXT, "Tasks",
               left=False, wide_only=True),
    )
)  # fmt: skip
"""`pystate list`; JSON is an entry of `jobs`. In a pipe it prints the flink client's lines, which are no table."""


def table(groups: JobGroups, width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width."""
    from rich.text import Text

    jobs = groups.all()
    if not jobs:
        asked = [name for name, group in (("running", groups.running), ("scheduled", groups.scheduled)) if group is not None]
        return Text(f"No {' or '.join(asked)} jobs." if groups.terminated is None else "No jobs.")
    return JOBS.table(jobs, width, unicode=unicode, now=now)

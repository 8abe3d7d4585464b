"""`pystate list [-r] [-s] [-a]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pystate.common.job_status import JobStatus
from pystate_cli.options import JobManagerOption, JsonOption, VerboseOption
from pystate_cli.session import Session
from pystate_cli.views.job_list import JobGroups, plain_lines

_SCHEDULED = (JobStatus.INITIALIZING, JobStatus.CREATED)


def list_jobs(
    context: typer.Context,
    running: Annotated[bool, typer.Option("-r", "--running", help="Only running jobs.", show_default=False)] = False,
    scheduled: Annotated[
        bool, typer.Option("-s", "--scheduled", help="Only jobs that are about to run.", show_default=False)
    ] = False,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Also jobs that have ended.", show_default=False)] = False,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """List jobs: a table on a terminal, the flink client's lines in a pipe."""
    session = Session.of(context)
    jobs = session.connect(job_manager).get("/jobs/overview")["jobs"]
    groups = group_jobs(
        jobs,
        running=running or everything or not scheduled,
        scheduled=scheduled or everything or not running,
        terminated=everything,
    )
    console = session.console
    if as_json:
        console.result_json({"jobs": groups.all()})
    elif console.is_terminal:
        from pystate_cli.views.job_list import table

        console.render(table(groups, console.width, unicode=console.has_unicode))
    else:
        for line in plain_lines(groups):
            console.result(line)


def group_jobs(jobs: list[dict[str, Any]], *, running: bool, scheduled: bool, terminated: bool) -> JobGroups:
    """Sort the entries of GET /jobs/overview into the groups that are asked for, each by start time."""
    groups = JobGroups([] if running else None, [] if scheduled else None, [] if terminated else None)
    for job in sorted(jobs, key=lambda entry: (entry["start-time"], entry["jid"])):
        state = JobStatus(job["state"])
        group = groups.scheduled if state in _SCHEDULED else groups.terminated if state.is_terminal else groups.running
        if group is not None:
            group.append(job)
    return groups

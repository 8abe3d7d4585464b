"""`pystate list [-r] [-s] [-a] [--watch [-n SECONDS]]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_messages import JobDetails, MultipleJobsDetails
from pystate.runtime.rest.operation_messages import RescalingInfo
from pystate_cli.arguments.options import JobManagerOption, JsonOption, VerboseOption
from pystate_cli.console.console import Console
from pystate_cli.console.formats import format_flink_time, printable
from pystate_cli.console.watching import DEFAULT_INTERVAL, IntervalOption, WatchOption, refuse_watched_json, watch
from pystate_cli.doctor.low_disks import low_disks
from pystate_cli.session import Session
from pystate_cli.views.job_lines import JobGroups, plain_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

_OTHER_LINES = 3
_SCHEDULED = (JobStatus.INITIALIZING, JobStatus.CREATED)


def list_jobs(
    context: typer.Context,
    running: Annotated[bool, typer.Option("-r", "--running", help="Only running jobs.", show_default=False)] = False,
    scheduled: Annotated[
        bool, typer.Option("-s", "--scheduled", help="Only jobs that are about to run.", show_default=False)
    ] = False,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Also jobs that have ended.", show_default=False)] = False,
    watched: WatchOption = False,
    seconds: IntervalOption = DEFAULT_INTERVAL,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """List jobs: a table on a terminal, the flink client's lines in a pipe."""
    session = Session.of(context)
    console = session.console
    refuse_watched_json(watched, as_json)
    client = session.connect(job_manager)

    def jobs() -> list[JobDetails]:
        return client.get("/jobs/overview", MultipleJobsDetails).jobs

    def groups(found: list[JobDetails]) -> JobGroups:
        return group_jobs(
            found,
            running=running or everything or not scheduled,
            scheduled=scheduled or everything or not running,
            terminated=everything,
        )

    if watched:
        watch(console, lambda: _Look(groups(jobs()), unicode=console.has_unicode), seconds)
        return
    everyone = jobs()
    found = groups(everyone)
    if as_json:
        console.result_json({"jobs": found.all()})
    elif console.is_terminal:
        from pystate_cli.views.job_list import table

        console.render(table(found, console.width, unicode=console.has_unicode))
    else:
        for line in plain_lines(found):
            console.result(line)
    for job in found.all():
        if job.pystate.silent_since is not None:
            since = format_flink_time(job.pystate.silent_since)
            console.warning(f"the driver of job {job.jid} gives no sign of life since {since}; it is replaced if that lasts")
        elif job.pystate.waits_for is not None:
            console.warning(f"job {job.jid}: {printable(job.pystate.waits_for)}")
    for job in everyone:  # between two jobs of a rescale none runs that could be listed
        if job.pystate.rescaling is not None:
            tell_rescaling(console, job.jid, job.pystate.rescaling)
    for sentence in low_disks(client):
        console.warning(f"{sentence}; pystate savepoints gc finds old files")


def tell_rescaling(console: Console, job_id: str, rescaling: RescalingInfo) -> None:
    """Tell of a rescale by the job manager that is under way, after which no job runs, or that can't be read."""
    what = f"rescale of job {job_id}" if rescaling.snapshot is None else f"return of job {job_id} to an earlier state"
    if not rescaling.status.is_completed:
        after = "" if rescaling.managers == 1 else ", after the death of a job manager"
        console.info(f"The {what} is under way{after}: {rescaling.step}")
    elif rescaling.failure is not None and (rescaling.unfinished or rescaling.unreadable):
        hint = "" if rescaling.failure.hint is None else f"; {rescaling.failure.hint}"
        told = "" if rescaling.unreadable else f"the {what} failed: "
        console.warning(f"{told}{rescaling.failure.message}{hint}")


class _Look:
    """The jobs at one point in time."""

    is_last = False  # somebody may run another one

    def __init__(self, groups: JobGroups, *, unicode: bool) -> None:
        self._groups = groups
        self._unicode = unicode

    def block(self) -> list[str]:
        return plain_lines(self._groups)

    def view(self, width: int, height: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from pystate_cli.views.job_list import table

        shown, left_out = first_jobs(self._groups, max(1, height - _OTHER_LINES))
        end = f"{left_out} more (q: quit)." if left_out else "(q: quit)"
        return Group(table(shown, width, unicode=self._unicode), Text(end, style="dim"))


def first_jobs(groups: JobGroups, count: int) -> tuple[JobGroups, int]:
    """Return the first `count` jobs, in groups, and the number of omitted ones."""
    room = count
    kept = []
    for group in (groups.running, groups.scheduled, groups.terminated):
        part = None if group is None else group[:room]
        room -= len(part or ())
        kept.append(part)
    return JobGroups(*kept), len(groups.all()) - (count - room)


def group_jobs(jobs: list[JobDetails], *, running: bool, scheduled: bool, terminated: bool) -> JobGroups:
    """Sort the entries of GET /jobs/overview into the requested groups, each ordered by start time."""
    groups = JobGroups([] if running else None, [] if scheduled else None, [] if terminated else None)
    for job in sorted(jobs, key=lambda entry: (entry.start_time, entry.jid)):
        is_scheduled, has_ended = job.state in _SCHEDULED, job.state.is_terminal
        group = groups.scheduled if is_scheduled else groups.terminated if has_ended else groups.running
        if group is not None:
            group.append(job)
    return groups

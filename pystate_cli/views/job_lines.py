"""The list of jobs as lines for programs, without the imports of tables: `pystate list` is called often."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.runtime.rest.job_messages import JobDetails
from pystate_cli.console.formats import format_flink_time, printable

_WIDTH = 62  # of the flink client's separators


@dataclass(frozen=True)
class JobGroups:
    """Entries of GET /jobs/overview; None for a group that wasn't requested."""

    running: list[JobDetails] | None
    scheduled: list[JobDetails] | None
    terminated: list[JobDetails] | None

    def all(self) -> list[JobDetails]:
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


def _block(title: str, jobs: list[JobDetails]) -> list[str]:
    left = (_WIDTH - len(title)) // 2
    rule = f"{'-' * left}{title}{'-' * (_WIDTH - len(title) - left)}"
    entries = [
        f"{format_flink_time(job.start_time)} : {job.jid} : {printable(job.name)} ({job.state.value}){_place(job)}"
        for job in jobs
    ]
    return [rule, *entries, "-" * _WIDTH]


def embedded_in(job: JobDetails) -> str | None:
    """Return the location of an embedded job's program; None for a job of the job manager."""
    program = job.pystate.embedded
    return None if program is None else f"process {program.pid} on {printable(program.host)}"


def _place(job: JobDetails) -> str:
    place = embedded_in(job)
    return "" if place is None else f" : embedded in {place}"

"""Resolves a job id, a prefix of one or a job's name to one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from pystate.common.errors import JobNotFoundError, JobTerminatedError, UsageError
from pystate.runtime.rest.job_messages import JobDetails, MultipleJobsDetails
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.formats import format_flink_time, printable

if TYPE_CHECKING:
    from pystate_cli.session import Session

JOB_ID = re.compile(r"[0-9a-fA-F]{32}")
_PREFIX = re.compile(r"[0-9a-fA-F]{4,31}")
_SHOWN = 10
_LIST_ALL = "pystate list -a"

Tell: TypeAlias = Callable[[str], object]


def _say_nothing(line: str) -> None:
    """Print nothing."""


def find_job(client: RestClient, text: str, *, changes: bool = False, tell: Tell = _say_nothing) -> str:
    """Return the id of a job, given the id, a prefix of at least 4 digits, or its name.

    Args:
        client: The job manager.
        text: The JOBID.
        changes: Whether the command modifies the job; see `choose_job`.
        tell: Called with the choice of which of several jobs was chosen.

    Raises:
        UsageError: The text can't be a job, or is ambiguous.
        JobNotFoundError: There is no job with this prefix.
        JobTerminatedError: The command modifies the job, and no job of this name runs.
    """
    whole_id = text.strip()
    if JOB_ID.fullmatch(whole_id):
        return whole_id.lower()
    return choose_job(text, client.get("/jobs/overview", MultipleJobsDetails).jobs, changes=changes, tell=tell)


def connect_to_job(
    session: Session, address: str | None, text: str | None, application_id: str | None, *, changes: bool = False
) -> tuple[RestClient, str]:
    """Return a client of the job manager, and the id of the job given by JOBID, `-yid`, or both.

    Args:
        session: The session of the command.
        address: The value of `-m`.
        text: The JOBID.
        application_id: The value of `-yid`, the id of the job's Spark application.
        changes: Whether the command modifies the job; see `choose_job`.

    Raises:
        UsageError: Neither is given, or they are different jobs.
        JobNotFoundError: There is no such job.
        JobTerminatedError: The command modifies the job, and it has ended.
        NoJobManagerError: There is no job manager.
    """
    if text is None and application_id is None:
        message = "Missing JobID. Specify a Job ID, the job's name, or its application with -yid."
        raise UsageError(message, hint="pystate list")
    client = session.connect(address)
    return client, selected_job(client, text, application_id, changes=changes, tell=session.console.info)


def selected_job(
    client: RestClient,
    text: str | None,
    application_id: str | None,
    *,
    changes: bool = False,
    tell: Tell = _say_nothing,
) -> str:
    """Return the id of the job given by JOBID, its Spark application, or both; see `connect_to_job`."""
    if application_id is None:
        return find_job(client, text or "", changes=changes, tell=tell)
    jobs = client.get("/jobs/overview", MultipleJobsDetails).jobs
    # a replacement driver has its own application; Spark's ids may be the same on two machines
    found = [job for job in jobs if job.pystate.application_id == application_id]
    if not found:
        message = f'No job is the Spark application "{printable(application_id)}".'
        raise JobNotFoundError(message, hint="pystate list -a --json shows each job's application-id")
    job_id = _running_or_last(application_id, found, changes=changes, tell=tell)
    if text is not None and find_job(client, text, changes=changes) != job_id:
        message = f'"{printable(text)}" is not the job of the application "{printable(application_id)}", which is {job_id}.'
        raise UsageError(message, hint="leave one of JOBID and -yid out")
    return job_id


def may_mean_job(text: str, jobs: Iterable[JobDetails]) -> bool:
    """Return whether a word is the name of a job, or a prefix of an id with at least 4 digits.

    Args:
        text: The word.
        jobs: Entries of GET /jobs/overview.
    """
    is_prefix = _PREFIX.fullmatch(text) is not None
    return any(job.name == text or (is_prefix and job.jid.startswith(text.lower())) for job in jobs)


def choose_job(text: str, jobs: Iterable[JobDetails], *, changes: bool = False, tell: Tell = _say_nothing) -> str:
    """Return the id of the matching job: the running one, or, if none runs, the one that ended last.

    A command that modifies a job must not select the wrong one: a name then matches only running jobs, and a prefix must be
        unique among all jobs.

    Args:
        text: The first digits of an id, or a name.
        jobs: Entries of GET /jobs/overview.
        changes: Whether the command modifies the job.
        tell: Called with the choice among several ended jobs.
    """
    jobs = list(jobs)
    named = [job for job in jobs if job.name == text]
    is_prefix = _PREFIX.fullmatch(text) is not None
    begun = [job for job in jobs if is_prefix and job.jid.startswith(text.lower()) and job not in named]
    if named and begun:
        raise _ambiguous(text, [*(_running(named) or named), *begun])
    if named:
        return _running_or_last(text, named, changes=changes, tell=tell)
    if len(begun) > 1 and changes:
        raise _ambiguous(text, begun)
    if begun:
        return _running_or_last(text, begun, changes=False, tell=tell)
    if is_prefix:
        message = f'There is no job whose id begins with "{text}", and none of that name.'
        raise JobNotFoundError(message, hint=_LIST_ALL)
    message = (
        f'Cannot parse JobID from "{printable(text)}": it is neither 32 hex digits, nor at least 4 that an id begins with, '
        "nor the name of a job."
    )
    raise UsageError(message, hint=_LIST_ALL)


def _running_or_last(text: str, found: list[JobDetails], *, changes: bool, tell: Tell) -> str:
    """Return the running job, else the one that ended last; only the running one if the command modifies it."""
    running = _running(found)
    if len(running) > 1:
        raise _ambiguous(text, running)
    if running:
        return running[0].jid
    last = max(found, key=lambda job: (job.end_time, job.start_time))
    ended = f"{last.jid} ({last.state.value}, {format_flink_time(last.end_time)})"
    if changes:
        message = f'No job "{printable(text)}" runs. The one that ended last is {ended}.'
        raise JobTerminatedError(message, hint=_LIST_ALL)
    if len(found) > 1:
        tell(f'{len(found)} jobs "{printable(text)}" have ended. This is the last: {ended}.')
    return last.jid


def _running(jobs: list[JobDetails]) -> list[JobDetails]:
    return [job for job in jobs if not job.state.is_terminal]


def _ambiguous(text: str, found: list[JobDetails]) -> UsageError:
    # the latest are the likely ones
    found = sorted(found, key=lambda job: (job.state.is_terminal, -job.start_time))
    lines = [f'"{printable(text)}" may mean any of {len(found)} jobs:']
    lines += [f"  {job.jid}  {printable(job.name)}  {job.state.value}" for job in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    return UsageError("\n".join(lines), hint="give the id, or more digits of it")

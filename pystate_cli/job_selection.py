"""From what an operator types to the id of one job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobNotFoundError, UsageError
from pystate.common.job_status import JobStatus
from pystate_cli.formats import printable
from pystate_cli.rest_client import RestClient

if TYPE_CHECKING:
    from pystate_cli.session import Session

JOB_ID = re.compile(r"[0-9a-fA-F]{32}")
_PREFIX = re.compile(r"[0-9a-fA-F]{4,31}")
_SHOWN = 10
_LIST_ALL = "pystate list -a"


def find_job(client: RestClient, text: str) -> str:
    """Return the id of the job that is meant by an id, by at least 4 digits it begins with, or by its name.

    Raises:
        UsageError: No job can be meant, or several may be.
        JobNotFoundError: There is none whose id begins so.
    """
    return text.lower() if JOB_ID.fullmatch(text) else choose_job(text, client.get("/jobs/overview")["jobs"])


def connect_to_job(
    session: Session, address: str | None, text: str | None, application_id: str | None
) -> tuple[RestClient, str]:
    """Return a client of the job manager, and the id of the job that is named by JOBID, by `-yid`, or by both.

    Args:
        session: The command's.
        address: The value of `-m`.
        text: The JOBID.
        application_id: The value of `-yid`, the id of the job's Spark application.

    Raises:
        UsageError: Neither is given, or they mean two jobs.
        JobNotFoundError: There is no such job.
        NoJobManagerError: There is no job manager.
    """
    if text is None and application_id is None:
        message = "Missing JobID. Specify a Job ID, the job's name, or its application with -yid."
        raise UsageError(message, hint="pystate list")
    client = session.connect(address)
    return client, selected_job(client, text, application_id)


def selected_job(client: RestClient, text: str | None, application_id: str | None) -> str:
    """Return the id of the job that is named by JOBID, by its Spark application, or by both; see `connect_to_job`."""
    if application_id is None:
        return find_job(client, text or "")
    jobs = client.get("/jobs/overview")["jobs"]
    # a driver that takes over makes an application of its own; a word of Spark may be used twice on two machines
    found = [job for job in jobs if (job.get("pystate") or {}).get("application-id") == application_id]
    running = [job for job in found if not JobStatus(job["state"]).is_terminal] or found
    if not running:
        message = f'No job is the Spark application "{printable(application_id)}".'
        raise JobNotFoundError(message, hint="pystate list -a --json shows each job's application-id")
    if len(running) > 1:
        raise _ambiguous(application_id, running)
    job_id = str(running[0]["jid"])
    if text is not None and choose_job_or_id(text, jobs) != job_id:
        message = f'"{printable(text)}" is not the job of the application "{printable(application_id)}", which is {job_id}.'
        raise UsageError(message, hint="leave one of JOBID and -yid out")
    return job_id


def choose_job_or_id(text: str, jobs: Iterable[dict[str, Any]]) -> str:
    """Return the job meant by a whole id, by its first digits, or by a name."""
    return text.lower() if JOB_ID.fullmatch(text) else choose_job(text, jobs)


def choose_job(text: str, jobs: Iterable[dict[str, Any]]) -> str:
    """Return the id of the only job meant. Of the jobs of one name those that have not ended win.

    Args:
        text: The first digits of an id, or a name.
        jobs: Entries of GET /jobs/overview.
    """
    jobs = list(jobs)
    named = [job for job in jobs if job["name"] == text]
    found = [job for job in named if not JobStatus(job["state"]).is_terminal] or named
    is_prefix = _PREFIX.fullmatch(text) is not None
    if is_prefix:
        found += [job for job in jobs if job["jid"].startswith(text.lower()) and job not in named]
    if len(found) == 1:
        return str(found[0]["jid"])
    if found:
        raise _ambiguous(text, found)
    if is_prefix:
        message = f'There is no job whose id begins with "{text}", and none of that name.'
        raise JobNotFoundError(message, hint=_LIST_ALL)
    message = (
        f'Cannot parse JobID from "{printable(text)}": it is neither 32 hex digits, nor at least 4 that an id begins with, '
        "nor the name of a job."
    )
    raise UsageError(message, hint=_LIST_ALL)


def _ambiguous(text: str, found: list[dict[str, Any]]) -> UsageError:
    # the latest are the likely ones
    found = sorted(found, key=lambda job: (JobStatus(job["state"]).is_terminal, -job["start-time"]))
    lines = [f'"{printable(text)}" may mean any of {len(found)} jobs:']
    lines += [f"  {job['jid']}  {printable(job['name'])}  {job['state']}" for job in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    return UsageError("\n".join(lines), hint="give the id, or more digits of it")

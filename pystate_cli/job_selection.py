"""From what an operator types to the id of one job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pystate.common.errors import JobNotFoundError, UsageError
from pystate.common.job_status import JobStatus
from pystate_cli.formats import printable
from pystate_cli.rest_client import RestClient

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
    if JOB_ID.fullmatch(text):
        return text.lower()
    return choose_job(text, client.get("/jobs/overview")["jobs"])


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

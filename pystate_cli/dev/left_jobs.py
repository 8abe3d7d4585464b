"""What earlier sessions of `pystate dev` have left: jobs that still run from their folders, and folders nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystate.common.configuration.groups.deployment_options import PythonOptions
from pystate.common.errors import PystateError
from pystate.runtime.job_folder.held_folders import remove_folder
from pystate.runtime.rest.job_messages import MultipleJobsDetails
from pystate.runtime.rest.own_job_messages import SubmissionInfo
from pystate_cli.client.rest_client import RestClient
from pystate_cli.dev.code_versions import CodeVersion
from pystate_cli.dev.dev_folder import LeftSession, surplus

Connect = Callable[[str | None], RestClient]
"""Returns a client of the job manager with that address; None for that of the home."""


@dataclass(frozen=True)
class LeftJob:
    """A job that goes on although its session has ended.

    Attributes:
        session: The session.
        submission: What it was submitted with.
    """

    session: LeftSession
    submission: SubmissionInfo

    @property
    def job_id(self) -> str:
        """Its id."""
        return self.submission.job_id

    @property
    def cancel_command(self) -> str:
        """What ends it."""
        where = "" if self.session.job_manager is None else f"-m {self.session.job_manager} "
        return f"pystate cancel {where}{self.job_id}"

    @property
    def version(self) -> CodeVersion:
        """The code that it runs."""
        job_file = Path(self.submission.job_file)
        files = next((one.value for one in self.submission.settings if one.key == PythonOptions.PYTHON_FILES.key), None)
        extra = [Path(word) for word in (files or "").split(",") if word]
        return CodeVersion(0, job_file.parent, extra, job_file)


def left_jobs(sessions: Sequence[LeftSession], connect: Connect) -> list[LeftJob]:
    """Return the jobs that go on, and delete the folders of sessions that no job refers to, but for the last ones.

    A folder whose job manager doesn't answer stays.

    Args:
        sessions: The sessions that have ended, the oldest first.
        connect: Connects to a job manager.
    """
    found: list[LeftJob] = []
    unused: list[LeftSession] = []
    for address in dict.fromkeys(session.job_manager for session in sessions):
        of_it = [session for session in sessions if session.job_manager == address]
        try:
            client = connect(address)
            running = _submissions(client, ended=False)
            candidates = [one for one in of_it if not any(map(_reference_to(one), running))]
            if surplus(candidates):  # what has ended may still have handed on files that it has claimed
                known = _submissions(client, ended=True)
                candidates = [one for one in candidates if not any(map(_claimed_from(one), known))]
        except PystateError:
            continue
        unused += candidates
        found += [LeftJob(one, job) for one in of_it for job in running if _runs_from(one, job)]
    for session in surplus(one for one in sessions if one in unused):
        remove_folder(session.folder)
    return found


def _submissions(client: RestClient, *, ended: bool) -> list[SubmissionInfo]:
    jobs = client.get("/jobs/overview", MultipleJobsDetails).jobs
    asked = [one for one in jobs if one.pystate.embedded is None and one.state.is_terminal is ended]
    return [client.get(f"/pystate/jobs/{job.jid}/submission", SubmissionInfo) for job in asked]


def _runs_from(session: LeftSession, job: SubmissionInfo) -> bool:
    return _names(session, [job.job_file])


def _reference_to(session: LeftSession) -> Callable[[SubmissionInfo], bool]:
    def refers(job: SubmissionInfo) -> bool:
        values = (one.value or "" for one in job.settings)
        return _names(session, [job.job_file, job.savepoint_path or "", *job.arguments, *values])

    return refers


def _claimed_from(session: LeftSession) -> Callable[[SubmissionInfo], bool]:
    return lambda job: not _runs_from(session, job) and _names(session, [job.savepoint_path or ""])


def _names(session: LeftSession, words: Iterable[str]) -> bool:
    """Return whether a path or URI of one of the words is in the folder of a session."""
    return any(f"/{session.folder.name}/" in f"{word}/" for word in words)

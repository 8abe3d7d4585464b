"""What sessions of `pystate dev` leave that were killed, or told to keep their job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pystate.common.files.home import PystateHome
from pystate.runtime.rest.job_messages import MultipleJobsDetails
from pystate.runtime.rest.own_job_messages import SubmissionInfo
from pystate_cli.client.rest_client import NoJobManagerError
from pystate_cli.dev.dev_folder import DevFolder
from pystate_cli.dev.left_jobs import left_jobs
from tests.rest_messages import message


@pytest.fixture
def program(tmp_path) -> Path:
    return tmp_path / "my job.py"


class Home:
    """Sessions of one program, each of which can be killed."""

    def __init__(self, root: Path, program: Path) -> None:
        self._home, self._program = PystateHome(root), program
        self._number = 0

    def session(self, *, keep: bool = False) -> DevFolder:
        folder = DevFolder(self._home, self._program, keep=keep)
        self._number += 1
        os.utime(folder.code.parent, (self._number, self._number))
        return folder

    def ended(self, *, keep: bool = False, job_manager: str | None = None) -> Path:
        folder = self.session(keep=keep)
        folder.note(job_manager, None)
        folder.code.mkdir()
        path = folder.code.parent
        os.utime(path, (self._number, self._number))
        folder.close(keep=True)  # as the kernel does at the end of a process
        return path


@pytest.fixture
def home(tmp_path, program) -> Home:
    return Home(tmp_path / "home", program)


class Jobs:
    """A job manager that knows some jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[str, SubmissionInfo]] = {}

    def add(self, state: str, job_file: object, **changes: Any) -> str:
        job_id = f"{len(self._jobs):032x}"
        plain = {
            "job_id": job_id, "job_file": str(job_file), "arguments": [], "working_directory": "/", "python": "python3",
            "submitted_at": 0, "parallelism": None, "savepoint_path": None, "allow_non_restored_state": False,
            "job_name": None, "settings": [], **changes,
        }  # fmt: skip
        self._jobs[job_id] = state, message(SubmissionInfo, plain)
        return job_id

    def __call__(self, address: str | None) -> Any:
        if address is not None:
            raise NoJobManagerError("There is no job manager.")
        return self

    def get(self, path: str, kind: type) -> Any:
        if kind is SubmissionInfo:
            return self._jobs[path.split("/")[3]][1]
        summary = {"name": "job", "start-time": 0, "end-time": -1, "duration": 0, "last-modification": 0, "tasks": {}}
        summary["pystate"] = {"embedded": None}
        return message(
            MultipleJobsDetails, {"jobs": [{**summary, "jid": one, "state": self._jobs[one][0]} for one in self._jobs]}
        )


def test_a_job_that_still_runs_from_a_folder_is_found_with_the_command_that_ends_it(home):
    killed, kept = home.ended(), home.ended(keep=True)
    jobs = Jobs()
    first = jobs.add("RUNNING", killed / "code/3/program/job.py")
    second = jobs.add("RESTARTING", kept / "code/1/program/job.py")
    jobs.add("FINISHED", killed / "code/2/program/job.py")
    now = home.session()
    found = left_jobs(now.left_sessions(), jobs)
    assert [(one.job_id, one.session.kept) for one in found] == [(first, False), (second, True)]
    assert found[0].cancel_command == f"pystate cancel {first}"
    assert found[0].version.job_file == killed / "code/3/program/job.py"


def test_a_session_that_runs_is_none_that_was_left(home):
    home.session()
    now = home.session()
    assert now.left_sessions() == []


def test_the_folders_that_nobody_refers_to_go_but_for_the_last_three(home):
    folders = [home.ended(keep=number % 2 == 0) for number in range(6)]
    assert left_jobs(home.session().left_sessions(), Jobs()) == []
    assert [folder.exists() for folder in folders] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("way", ["its code", "its checkpoint", "a setting", "a claimed checkpoint of a job that ended"])
def test_a_folder_that_a_job_refers_to_stays(home, way):
    folders = [home.ended() for _ in range(6)]
    first, jobs = folders[0], Jobs()
    setting = {"key": "execution.checkpointing.dir", "value": (first / "checkpoints").as_uri(), "origin": None, "place": ""}
    {
        "its code": lambda: jobs.add("RUNNING", first / "code/1/program/job.py"),
        "its checkpoint": lambda: jobs.add("RUNNING", "/a.py", savepoint_path=f"file://{first}/checkpoints/a/chk-1"),
        "a setting": lambda: jobs.add("CREATED", "/a.py", settings=[setting]),
        "a claimed checkpoint of a job that ended": lambda: jobs.add(
            "CANCELED", "/a.py", savepoint_path=f"file://{first}/checkpoints/a/chk-1"
        ),
    }[way]()
    left_jobs(home.session().left_sessions(), jobs)
    assert [folder.exists() for folder in folders] == [True, False, False, True, True, True]


def test_folders_whose_job_manager_does_not_answer_stay(home):
    folders = [home.ended(job_manager="elsewhere:8081") for _ in range(6)]
    assert left_jobs(home.session().left_sessions(), Jobs()) == []
    assert all(folder.exists() for folder in folders)


def test_the_folder_of_a_session_whose_job_was_taken_over_goes_with_this_one(home):
    killed = home.ended()
    now = home.session()
    now.take_over(now.left_sessions()[0])
    now.close(keep=False)
    assert not killed.exists()

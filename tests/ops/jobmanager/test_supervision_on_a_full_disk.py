"""What the job manager's process can't write at the moment: decisions hold at once, and are written when they can be."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystate.common.files import job_files
from pystate.common.files.home import read_json
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.rest.rest_errors import CLIENT_HEADER
from tests.ops.jobmanager.drivers.test_driver_restart import details, failure_of, pid_of, starts, wait_for_another
from tests.ops.jobmanager.harness import eventually


class Refusing:
    """Keeps this process from making files, as a full disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number: int | None = None
        self.refused = 0
        self._temporary = job_files._temporary
        monkeypatch.setattr(job_files, "_temporary", self._checked)

    def _checked(self, path: Path) -> Path:
        if self.number is not None:
            self.refused += 1
            raise OSError(self.number, os.strerror(self.number), str(path))
        return self._temporary(path)

    @contextlib.contextmanager
    def full(self, number: int = errno.ENOSPC) -> Iterator[None]:
        self.number = number
        try:
            yield
        finally:
            self.number = None

    def wait_for_tries(self, count: int) -> None:
        so_far = self.refused
        eventually(lambda: self.refused >= so_far + count)


@pytest.fixture
def disk(monkeypatch) -> Refusing:
    return Refusing(monkeypatch)


def kill(manager, job: str) -> int:
    pid = pid_of(manager, job)
    os.kill(pid, signal.SIGKILL)
    return pid


def record_of(manager, job: str) -> dict:
    return dict(read_json(manager.home.job(job).record))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE])
def test_a_job_whose_driver_was_killed_is_restarted_once_its_files_can_be_written(manager, disk, caplog, number):
    caplog.set_level(logging.INFO)
    job = manager.submit("--restart", "1", "10")
    manager.wait_for(job, "RUNNING")

    with disk.full(number):
        pid = kill(manager, job)
        disk.wait_for_tries(4)
        assert starts(manager, job) == 1
    wait_for_another(manager, job, pid)

    assert details(manager, job)["pystate"]["attempt"] == 1, "the failure counts once, however often it was tried"
    said = [record.message for record in caplog.records if "what follows for job" in record.message]
    assert [sentence.partition(" is ")[2].partition(" it can be done")[0] for sentence in said[:1]] == ["tried until"]
    assert len(said) == 2, said


def test_a_driver_is_not_started_where_there_is_no_room_for_its_files(manager, disk):
    job = manager.submit("--restart", "1", "500")
    manager.wait_for(job, "RUNNING")
    pid = kill(manager, job)
    manager.wait_for(job, "RESTARTING")

    with disk.full():
        disk.wait_for_tries(3)
        assert job not in DriverLauncher(manager.home).find_running()
    wait_for_another(manager, job, pid)

    assert details(manager, job)["pystate"]["attempt"] == 1


def test_a_cancel_ends_a_job_whose_driver_was_killed(manager, disk):
    job = manager.submit("--restart", "3", "10")
    manager.wait_for(job, "RUNNING")

    with disk.full():
        kill(manager, job)
        disk.wait_for_tries(2)
        assert manager.request("PATCH", f"/jobs/{job}")[0] == 202
        manager.wait_for(job, "CANCELED")
        assert record_of(manager, job)["phase"] == "STARTED"
    eventually(lambda: record_of(manager, job)["phase"] == "ENDED")

    assert record_of(manager, job)["verdict"]["state"] == "CANCELED"
    assert starts(manager, job) == 1
    eventually(lambda: not manager.home.job(job).environment.exists())


def test_a_cancel_reaches_a_driver_that_lives(manager, disk):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    with disk.full():
        assert manager.request("PATCH", f"/jobs/{job}")[0] == 202
        manager.wait_for(job, "CANCELED")
    eventually(lambda: record_of(manager, job)["phase"] == "ENDED")


def test_a_job_that_dies_before_it_had_begun_stays_with_its_record_its_log_and_why(manager, disk):
    job = manager.submit("--init", "60")
    eventually(lambda: "a line of noise" in manager.home.job(job).log.read_text())

    with disk.full():
        os.kill(record_of(manager, job)["pid"], signal.SIGKILL)
        manager.wait_for(job, "FAILED")
        assert failure_of(manager, job) == "The driver process ended with signal SIGKILL."
    eventually(lambda: record_of(manager, job)["phase"] == "ENDED")

    assert record_of(manager, job)["verdict"]["failure"]["message"] == "The driver process ended with signal SIGKILL."
    assert manager.home.job(job).log.exists()


def test_a_submission_is_refused_with_a_sentence_and_leaves_nothing(manager, disk):
    with disk.full():
        status, answer = manager.request("POST", "/pystate/jobs", manager.submission(), {CLIENT_HEADER: "1"})

    assert (status, answer["pystate"]["message"]) == (507, "The job's files can't be written: No space left on device.")
    assert answer["pystate"]["where"].startswith(str(manager.home.jobs))
    assert "pystate doctor" in answer["pystate"]["hint"]
    assert list(manager.home.jobs.iterdir()) == []
    assert manager.request("GET", "/jobs/overview")[1]["jobs"] == []

"""`pystate dev`, with drivers that need no Spark, and a check that finds nothing."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from pystate.common.files.home import PystateHome, read_json
from pystate_cli.client.rest_client import NoJobManagerError
from pystate_cli.dev.code_versions import CodeVersions
from pystate_cli.dev.dev_folder import DevFolder
from pystate_cli.dev.dev_job import DevJob
from pystate_cli.programs import program_process
from tests.core.snapshot.snapshots import write_savepoint
from tests.waiting import ends, wait_until


class NothingWrong:
    def __init__(self, module: str) -> None:
        assert module == "program_check"

    def ask(self, program: Any, **_: Any) -> None:
        pass

    def answer(self) -> dict[str, Any]:
        return {"findings": [], "modules": []}

    def end(self) -> None:
        pass


@pytest.fixture
def dev(manager, pystate, monkeypatch):
    """Run the command until something holds, then send it a signal."""
    monkeypatch.setattr(program_process, "WaitingProcess", NothingWrong)

    def dev(*words, until, number=signal.SIGTERM):
        def end() -> None:
            wait_until(until)
            os.kill(os.getpid(), number)

        ending = threading.Thread(target=end)
        ending.start()
        try:
            return pystate("dev", *words)
        finally:
            assert ends(ending)

    return dev


def jobs(manager):
    return [one["id"] for one in manager.request("GET", "/jobs")[1]["jobs"]]


def has_job(manager, state):
    return lambda: [manager.state(job) for job in jobs(manager)][-1:] == [state]


def has_jobs(manager, *states):
    return lambda: sorted(manager.state(job) for job in jobs(manager)) == [*states]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_session_and_its_job_and_leaves_nothing(dev, manager, number):
    before = signal.getsignal(signal.SIGTERM)
    code, out, err = dev(manager.job_file, until=has_job(manager, "RUNNING"), number=number)
    assert (code, out) == (0, "")
    (job,) = jobs(manager)
    assert manager.state(job) == "CANCELED"
    assert f"Job has been submitted with JobID {job}" in err
    home: PystateHome = manager.home
    assert list(home.dev.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before
    assert manager.request("GET", "/config")[0] == 200, "the job manager was there before"


def test_a_job_that_is_kept_goes_on_with_a_copy_of_its_code(dev, manager):
    code, out, err = dev("--keep", manager.job_file, until=has_job(manager, "RUNNING"))
    job = out.strip()
    assert code == 0
    assert manager.state(job) == "RUNNING"
    assert f"pystate cancel {job}" in err
    file = read_json(manager.home.job(job).submission)["job_file"]
    assert file != str(manager.job_file)
    assert open(file).read() == manager.job_file.read_text()


def test_the_job_is_quick_to_fail_and_keeps_its_checkpoints_unless_it_is_said_otherwise(dev, manager):
    words = ("-p", 3, "-D", "execution.checkpointing.dir=/other", manager.job_file, "word", "--keep")
    dev(*words, until=has_job(manager, "RUNNING"))
    submission = read_json(manager.home.job(jobs(manager)[0]).submission)
    found = submission["configuration"]
    assert (submission["arguments"], submission["parallelism"]) == (["word", "--keep"], 3)
    assert found["restart-strategy.type"] == "none"
    assert found["execution.checkpointing.externalized-checkpoint-retention"] == "RETAIN_ON_CANCELLATION"
    assert found["execution.checkpointing.dir"].endswith("/other")
    assert submission["origins"]["restart-strategy.type"] == "command line: pystate dev"


def test_a_program_with_a_syntax_error_is_waited_for(dev, manager, capfd):
    manager.job_file.write_text("def f(:\n")
    seen = []

    def told() -> bool:
        seen.append(capfd.readouterr().err)
        return "Version 1 does not run: 1 error." in "".join(seen)

    assert dev(manager.job_file, until=told).code == 0
    assert jobs(manager) == []
    assert "job.py:1: error: SyntaxError: invalid syntax" in "".join(seen)


def test_a_program_that_is_not_there_is_refused(pystate):
    code, _, err = pystate("dev", "none.py")
    assert code == 2
    assert "The job file does not exist: none.py" in err


def killed_session(manager):
    """Return the job that a session was killed over, and the folder that it runs from."""
    folder = DevFolder(manager.home, manager.job_file, keep=False)
    folder.note(None, None)
    version = CodeVersions(manager.job_file, folder.code).take([])
    job = manager.submit("--name", "left", job_file=str(version.job_file))
    manager.wait_for(job, "RUNNING")
    folder.close(keep=True)  # as the kernel does
    return job, folder.code.parent


def test_a_job_that_cannot_be_ended_keeps_its_code_for_the_next_session(dev, manager, monkeypatch):
    def refused(_job: DevJob) -> None:
        raise NoJobManagerError("No job manager is running.")

    with monkeypatch.context() as gone:
        gone.setattr(DevJob, "cancel", refused)
        _, _, err = dev(manager.job_file, until=has_job(manager, "RUNNING"))
    (job,) = jobs(manager)
    assert f"Job {job} could not be ended." in err
    assert os.path.exists(read_json(manager.home.job(job).submission)["job_file"])
    assert f"Job {job} still runs" in dev(manager.job_file, until=has_jobs(manager, "FINISHED", "RUNNING")).err


def test_another_session_of_the_program_is_told_of(dev, manager):
    other = DevFolder(manager.home, manager.job_file, keep=False)
    assert "Another pystate dev of" in dev(manager.job_file, until=has_job(manager, "RUNNING")).err
    other.close(keep=False)
    assert "Another pystate dev of" not in dev(manager.job_file, until=has_jobs(manager, "CANCELED", "RUNNING")).err


def test_a_job_whose_session_was_killed_is_taken_over(dev, manager):
    left, folder = killed_session(manager)
    code, _, err = dev(manager.job_file, until=has_jobs(manager, "FINISHED", "RUNNING"))
    assert code == 0
    assert f"Job {left} still runs, and its session was killed: this one takes it over." in err
    assert manager.state(left) == "FINISHED", "it was stopped with a savepoint"
    (new,) = (job for job in jobs(manager) if job != left)
    assert read_json(manager.home.job(new).submission)["savepoint_path"] is not None
    assert not folder.exists()


def test_a_job_that_was_to_be_kept_is_named_and_left_alone(dev, manager):
    kept = dev("--keep", manager.job_file, until=has_job(manager, "RUNNING")).out.strip()
    _, _, err = dev(manager.job_file, until=has_jobs(manager, "RUNNING", "RUNNING"))
    assert f"Job {kept}, which an earlier session was told to keep, still runs.\nTo end it: pystate cancel {kept}\n" in err
    assert manager.state(kept) == "RUNNING"


def test_a_job_whose_session_was_killed_is_named_where_another_state_is_asked_for(dev, manager, tmp_path):
    left, _ = killed_session(manager)
    savepoint = write_savepoint(tmp_path / "savepoints").uri
    _, _, err = dev("-s", savepoint, manager.job_file, until=has_jobs(manager, "RUNNING", "RUNNING"))
    assert f"Job {left} still runs, and its session was killed.\nTo end it: pystate cancel {left}\n" in err
    assert manager.state(left) == "RUNNING"

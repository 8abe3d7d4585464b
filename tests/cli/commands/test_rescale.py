"""`pystate rescale`."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from unittest.mock import MagicMock, Mock

import pytest

from pystate.common.files.home import read_json
from pystate_cli.client.rest_client import BACK_AGAIN, NoJobManagerError
from pystate_cli.running.rescaling import Rescaling
from tests.ops.jobmanager.harness import PYTHON_PATH, eventually
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.waiting import LONGEST_S

SECRET = {"PYTHONPATH": PYTHON_PATH, "PATH": os.environ["PATH"], "MY_PASSWORD": "hidden"}


@pytest.fixture
def submit(manager, tmp_path):
    def submit(*words: str, **changes: object) -> str:
        settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp"), "pipeline.name": "kept"}
        job = manager.submit(*words, **{"configuration": settings, "environment": SECRET, **changes})
        manager.wait_for(job, "RUNNING")
        return str(job)

    return submit


def submission(manager, job: str) -> dict[str, object]:
    return dict(read_json(manager.home.job(job).submission))


def kept(manager, job: str) -> bool:
    return manager.home.job(job).resubmission.exists()


def all_jobs(manager) -> list[str]:
    return [str(job["id"]) for job in manager.request("GET", "/jobs")[1]["jobs"]]


def test_a_job_goes_on_as_it_was_submitted_with_another_parallelism(manager, submit, pystate, tmp_path):
    job = submit("an argument", "--environment")

    code, out, err = pystate("rescale", job, "-p", 3)

    new = out.strip()
    assert code == 0, err
    assert new != job
    assert (manager.state(job), manager.state(new)) == ("FINISHED", "RUNNING")
    before, after = submission(manager, job), submission(manager, new)
    savepoint = f"{tmp_path}/sp/savepoint-{job[:6]}-0123456789ab"
    changed = {"job_id": new, "submitted_at": after["submitted_at"], "parallelism": 3, "savepoint_path": savepoint}
    assert after == {**before, **changed}
    environment = json.loads(manager.home.job(new).log.read_text().splitlines()[0])["env"]
    assert environment["MY_PASSWORD"] == "hidden"
    assert not kept(manager, job), "secrets are kept no longer than they are needed"
    assert "hidden" not in err
    assert err.splitlines()[:4] == [
        f"1/2 Stopping job {job} with a savepoint.",
        f"    If this command should die: pystate rescale {job} -p 3",
        f"    Savepoint completed. Path: {savepoint}",
        "2/2 Starting it from there with parallelism 3.",
    ]


def test_rescale_as_json(manager, submit, pystate):
    job = submit()

    answer = json.loads(pystate("rescale", job, "-p", 4, "--json").out)

    assert answer["rescaledFrom"] == job
    assert answer["parallelism"] == 4
    assert manager.state(answer["jobId"]) == "RUNNING"


def test_a_job_that_does_not_come_up_runs_again_as_it_was(manager, submit, pystate):
    job = submit("--most", "2")

    code, out, err = pystate("rescale", job, "-p", 3)

    former = out.strip()
    assert code == 1
    assert manager.state(former) == "RUNNING"
    assert submission(manager, former)["parallelism"] == 2
    assert submission(manager, former)["savepoint_path"] is not None
    assert "error: The savepoint does not fit." in err
    assert f"error: The job was NOT rescaled. It runs as {former} with the parallelism it had." in err
    assert len(all_jobs(manager)) == 3
    assert not kept(manager, job)


def test_a_successor_whose_driver_is_killed_in_its_first_start_goes_on_in_another(manager, submit, pystate, tmp_path):
    keys = {"type": "fixed-delay", "fixed-delay.attempts": "5", "fixed-delay.delay": "10 ms"}
    settings = {f"restart-strategy.{key}": value for key, value in keys.items()}
    savepoints = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
    job = submit("--die-at-start", "1", "-9", "--restart", "5", "10", configuration={**settings, **savepoints})

    code, out, _ = pystate("rescale", job, "-p", 3)

    assert code == 0
    assert submission(manager, out.strip())["parallelism"] == 3
    assert manager.request("GET", f"/jobs/{out.strip()}")[1]["pystate"]["attempt"] == 1


def test_a_job_that_restarts_before_it_runs_is_ended(manager, submit, pystate):
    # the driver of attempt 0 dies before RUNNING where the parallelism is above 2, again and again
    job = submit("--die-above", "2", "--restart", "1000", "50")

    code, out, _ = pystate("rescale", job, "-p", 3)

    assert code == 1
    assert manager.state(out.strip()) == "RUNNING"
    states = {other: manager.state(other) for other in all_jobs(manager)}
    assert sorted(states.values()) == ["CANCELED", "FINISHED", "RUNNING"]


def test_a_successor_that_takes_too_long_is_ended(manager, submit, pystate):
    job = submit("--slow-above", "2")

    code, out, err = pystate("rescale", job, "-p", 3, "--timeout", "4")  # the way back has as long

    assert code == 1
    assert "did not run within 4 s (INITIALIZING)." in err
    assert submission(manager, out.strip())["parallelism"] == 2


def test_the_way_back_is_left_to_start_however_long_it_takes(manager, submit, pystate, tmp_path):
    job = submit("--slow-again", str(tmp_path / "once"))

    code, out, err = pystate("rescale", job, "-p", 3, "--timeout", "3")

    former = out.strip()
    assert code == 1
    assert manager.state(former) == "INITIALIZING"
    assert submission(manager, former)["parallelism"] == 2
    assert f"error: The job was NOT rescaled. It starts as {former} with the parallelism it had, and did not run yet " in err
    assert f"pystate watch {former}" in err
    assert not kept(manager, job)


def test_neither_comes_up(manager, submit, pystate, tmp_path):
    job = submit("--never-again", str(tmp_path / "once"))

    code, out, err = pystate("rescale", job, "-p", 3)

    assert (code, out) == (1, "")
    savepoint = f"{tmp_path}/sp/savepoint-{job[:6]}-0123456789ab"
    assert f"error: NO JOB RUNS NOW. Nothing is lost: the savepoint is {savepoint}\n" in err
    assert err.endswith(f"  try: once the reason is out of the way: pystate rescale {job} -p 3\n")
    assert kept(manager, job)
    assert stat.S_IMODE(manager.home.job(job).resubmission.stat().st_mode) == 0o600

    # the same command goes on once the reason is gone
    Statistics().run(5, savepoint=True).write(manager.home.job(job).checkpoints)
    (tmp_path / "once").unlink()
    code, out, err = pystate("rescale", job, "-p", 3)
    assert code == 0, err
    assert err.startswith(f"Going on with the rescale of job {job} from file:/sp/savepoint-5.\n")
    assert submission(manager, out.strip())["parallelism"] == 3
    assert not kept(manager, job)


def test_a_savepoint_that_fails_changes_nothing(manager, submit, pystate):
    job = submit("--savepoint-fails")

    code, out, err = pystate("rescale", job, "-p", 3)

    assert (code, out) == (1, "")
    assert f"Nothing was changed by this command. Job {job} was RUNNING after that.\n" in err
    assert "error: The savepoint can't be written." in err
    assert manager.state(job) == "RUNNING"
    assert not kept(manager, job)


@pytest.mark.parametrize(("place", "number"), [("stop", signal.SIGINT), ("start", signal.SIGINT), ("stop", signal.SIGKILL)])
def test_a_command_that_dies_half_way_can_be_given_again(manager, submit, pystate, place, number):
    slow = ("--savepoint", "1.5") if place == "stop" else ("--slow-above", "2")
    job = submit(*slow)
    process = subprocess.Popen(
        [sys.executable, "-m", "pystate_cli", "rescale", job, "-p", "3"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(2 if place == "stop" else 5)]
    go_on = f"pystate rescale {job} -p 3"
    assert told[1].strip() == f"If this command should die: {go_on}"
    if place == "stop":
        eventually(lambda: "triggered stop\n" in manager.home.job(job).log.read_text())
    else:
        eventually(lambda: len(all_jobs(manager)) == 2)

    process.send_signal(number)
    _, err = process.communicate(timeout=LONGEST_S)

    if number == signal.SIGINT:
        assert process.returncode == 130
        assert err.rstrip().endswith(f"What is left to do, does: {go_on}")
    manager.wait_for(job, "FINISHED")
    Statistics().run(5, savepoint=True).write(manager.home.job(job).checkpoints)
    if place == "start":
        successor = next(other for other in all_jobs(manager) if other != job)
        code, _, err = pystate("rescale", job, "-p", 2)
        assert code == 2
        assert f"error: Its successor {successor} is there already (INITIALIZING).\n" in err
        manager.request("PATCH", f"/jobs/{successor}")
        manager.wait_for(successor, "CANCELED")
        code, out, err = pystate("rescale", job, "-p", 2)
    else:
        code, out, err = pystate("rescale", job, "-p", 3)
    assert code == 0, err
    assert manager.state(out.strip()) == "RUNNING"


def test_who_changes_nothing_takes_nothing_from_another_command(manager, submit, pystate):
    """What the job is started again with is kept as long as one of them needs it."""
    job = submit("--savepoint-fails")
    keep = f"/pystate/jobs/{job}/resubmission"
    of_another = manager.request("POST", keep, {"parallelism": 3})[1]

    assert pystate("rescale", job, "-p", 2).err.endswith("Nothing was done.\n")
    assert "Nothing was changed by this command." in pystate("rescale", job, "-p", 4).err

    assert manager.request("GET", keep)[1] == of_another


def test_a_job_has_one_successor_at_a_time(manager, submit):
    job = submit()
    keep, again = f"/pystate/jobs/{job}/resubmission", f"/pystate/jobs/{job}/resubmit"
    keeper = manager.request("POST", keep, {"parallelism": 3})[1]["keeper"]
    other = manager.request("POST", keep, {"parallelism": 4})[1]["keeper"]
    trigger = manager.request("POST", f"/jobs/{job}/stop", {"targetDirectory": "/tmp/s"})[1]["request-id"]
    savepoint = manager.operation(job, trigger)["location"]
    manager.wait_for(job, "FINISHED")

    successor = manager.request("POST", again, {"savepoint_path": savepoint, "parallelism": 3})[1]["job_id"]
    status, answer = manager.request("POST", again, {"savepoint_path": savepoint, "parallelism": 4})

    assert status == 409
    assert f"Job {job} was started again already, as job {successor}, which is " in answer["errors"][0]
    manager.request("PATCH", f"/jobs/{successor}")
    manager.wait_for(successor, "CANCELED")
    assert manager.request("POST", again, {"savepoint_path": savepoint, "parallelism": 4})[0] == 202
    assert manager.request("DELETE", f"{keep}?keeper={other}")[0] == 200
    assert manager.request("GET", keep)[1]["keeper"] == keeper
    assert manager.request("DELETE", f"{keep}?keeper={keeper}")[0] == 200
    assert manager.request("GET", keep)[0] == 404


def test_a_successor_that_is_there_already_is_not_started_twice(manager, submit, pystate):
    job = submit()
    status, _ = manager.request("POST", f"/pystate/jobs/{job}/resubmission", {"parallelism": 3})
    assert status == 200
    trigger = manager.request("POST", f"/jobs/{job}/stop", {"targetDirectory": "/tmp/s"})[1]["request-id"]
    savepoint = manager.operation(job, trigger)["location"]
    manager.wait_for(job, "FINISHED")
    Statistics().run(5, savepoint=True).write(manager.home.job(job).checkpoints)
    body = {"savepoint_path": savepoint, "parallelism": 3}
    successor = manager.request("POST", f"/pystate/jobs/{job}/resubmit", body)[1]["job_id"]

    code, out, err = pystate("rescale", job, "-p", 3)

    assert (code, out) == (0, f"{successor}\n"), err
    assert len(all_jobs(manager)) == 2


def test_a_job_that_was_started_as_it_was_is_not_taken_for_a_rescaled_one(manager, submit, pystate):
    job = submit()
    keep, again = f"/pystate/jobs/{job}/resubmission", f"/pystate/jobs/{job}/resubmit"
    assert manager.request("POST", keep, {"parallelism": 3})[0] == 200
    trigger = manager.request("POST", f"/jobs/{job}/stop", {"targetDirectory": "/tmp/s"})[1]["request-id"]
    savepoint = manager.operation(job, trigger)["location"]
    manager.wait_for(job, "FINISHED")
    Statistics().run(5, savepoint=True).write(manager.home.job(job).checkpoints)
    successor = manager.request("POST", again, {"savepoint_path": savepoint, "parallelism": None})[1]["job_id"]
    kept = manager.request("GET", keep)[1]
    assert (kept["parallelism"] != 3, kept["successor"]) == (True, successor)

    code, out, err = pystate("rescale", job, "-p", 3)

    assert (code, out) == (2, ""), err
    assert f"Its successor {successor} is there already" in err


def test_nothing_to_do(manager, submit, pystate):
    job = submit()

    assert pystate("rescale", job, "-p", 2) == (
        0,
        f"{job}\n",
        f"Job {job} has parallelism 2 already. Nothing was done.\n",
    )
    assert manager.state(job) == "RUNNING"
    assert not kept(manager, job)


def test_what_can_not_work_is_refused_before_the_job_is_stopped(manager, submit, pystate):
    job = submit()
    code, _, err = pystate("rescale", job, "-p", 129)
    assert code == 2
    assert "The parallelism can't be above the max parallelism of the job's state, which is 128." in err

    own = submit("--own-parallelism", "7")
    code, _, err = pystate("rescale", own, "-p", 3)
    assert code == 2
    assert "The program sets its parallelism itself (its operators have 7)" in err

    starting = manager.submit("--init", "60")
    code, _, err = pystate("rescale", starting, "-p", 3, "--timeout", 1)
    assert code == 1
    assert f"error: Job {starting} is INITIALIZING; only a job that is RUNNING can be rescaled." in err

    assert {manager.state(job), manager.state(own)} == {"RUNNING"}
    assert not kept(manager, own)


def test_a_job_that_does_not_run_yet_is_waited_for(manager, pystate, tmp_path):
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
    job = manager.submit("--init", "2", configuration=settings, environment=SECRET)
    manager.wait_for(job, "INITIALIZING")

    code, out, err = pystate("rescale", job, "-p", 3)

    assert code == 0, err
    assert manager.state(out.strip()) == "RUNNING"
    assert err.startswith(f"Job {job} is INITIALIZING; it can be rescaled once it is RUNNING.\n")


def test_a_job_that_has_ended_by_itself(manager, pystate):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")

    code, _, err = pystate("rescale", job, "-p", 3)

    assert code == 1
    assert err.startswith(f"error: Job {job} has ended (FINISHED), and no rescale of it was under way.\n")


def test_wrong_calls_of_rescale(manager, running, pystate):
    assert pystate("rescale", running) == (
        2,
        "",
        "error: Missing parallelism. Specify it with -p.\n  try: pystate rescale JOBID -p N\n",
    )
    assert pystate("rescale", running, "-p", "0").code == 2
    assert pystate("rescale", "-p", "2").code == 2


def test_resubmission_needs_the_token_and_an_ended_job(manager, running):
    path = f"/pystate/jobs/{running}/resubmission"
    assert manager.request("POST", path, {"parallelism": 3}, token=False)[0] == 401
    assert manager.request("GET", path)[0] == 404
    assert manager.request("POST", path, {"parallelism": 0})[0] == 400
    assert manager.request("POST", path, {})[0] == 400
    status, answer = manager.request("POST", path, {"parallelism": 3})
    assert (status, answer["parallelism"], answer["submitted-parallelism"]) == (200, 3, 2)
    assert "environment" not in answer
    assert manager.request("GET", path)[1] == answer
    assert manager.request("POST", f"/pystate/jobs/{running}/resubmit", {"savepoint_path": "/s"})[0] == 409
    assert manager.request("DELETE", path) == (200, {})
    assert manager.request("GET", path)[0] == 404


def test_a_job_manager_that_is_killed_meanwhile_is_named_before_what_is_left_to_do():
    def gone(*_):
        raise NoJobManagerError("No job manager answers.", hint=BACK_AGAIN)

    client = Mock(get=Mock(side_effect=gone), post=Mock(side_effect=gone))
    with pytest.raises(NoJobManagerError) as told:
        Rescaling(Mock(), client, "ab" * 16, 3, 1.0).run(None)
    assert told.value.hint == f"pystate cluster start, then: pystate rescale {'ab' * 16} -p 3"


def test_without_a_job_manager_no_other_parallelism_is_tried():
    client = Mock(post=Mock(side_effect=NoJobManagerError("No job manager answers.", hint=BACK_AGAIN)))
    with pytest.raises(NoJobManagerError):
        Rescaling(Mock(), client, "ab" * 16, 3, 1.0)._started("/savepoint")
    assert client.post.call_count == 1


W2, W3, R2, R3 = ((2, "WARMING"), (3, "WARMING"), (2, "READY"), (3, "READY"))


@pytest.mark.parametrize(
    ("looks", "asked"),
    [
        ([[], [W2], [W2, W3], [W3], [R3, W2]], 5),
        ([[W3], []], 2),  # it could not be made
        ([[], [R2], [], []], 4),  # there will be none
    ],
)
def test_a_job_runs_on_until_the_driver_of_its_successor_is_ready(monkeypatch, looks, asked):
    monkeypatch.setattr("pystate.ops.rescaling.rescaling._POLL_SECONDS", 0)
    answers = iter(looks)

    def get(path, _):
        assert path == "/pystate/spare-drivers"
        return Mock(spare_drivers=[Mock(parallelism=one, state=state) for one, state in next(answers)])

    client = Mock(get=Mock(side_effect=get))
    Rescaling(MagicMock(), client, "a" * 32, 3, 1.0)._await_driver()
    assert client.get.call_count == asked


def test_an_interrupted_wait_for_the_driver_gives_it_up(monkeypatch):
    client = Mock(get=Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        Rescaling(MagicMock(), client, "a" * 32, 3, 1.0)._await_driver()
    assert client.delete.call_count == 1


def test_the_list_and_the_exceptions_tell_of_a_rescale_by_the_job_manager_after_which_no_job_runs(
    manager, submit, pystate, tmp_path
):
    job = submit("--never-again", str(tmp_path / "once"))
    trigger = manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3")[1]["request-id"]

    def told() -> dict[str, object]:
        return manager.request("GET", f"/jobs/{job}/rescaling/{trigger}")[1]

    eventually(lambda: told()["status"]["id"] == "COMPLETED")
    assert f"the rescale of job {job} failed: NO JOB RUNS NOW." in pystate("list").err
    assert f"pystate rescale {job} -p 3" in pystate("list").err
    assert "NO JOB RUNS NOW." in pystate("exceptions", job).out
    Statistics().run(5, savepoint=True).write(manager.home.job(job).checkpoints)
    (tmp_path / "once").unlink()
    assert pystate("rescale", job, "-p", 3).code == 0
    assert "failed" not in pystate("list").err

"""Rescales and returns to an earlier state that the job manager does itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pystate.common.files.home import read_json
from tests.ops.jobmanager.harness import ManagerThread, eventually
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

SNAPSHOT = Path(__file__).parents[3] / "fixtures" / "snapshots" / "v0.1.0-format2" / "canonical-hashmap"


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerThread]:
    started = ManagerThread(tmp_path_factory.mktemp("rescaling") / "home").start()
    yield started
    started.stop()


def submit(manager: ManagerThread, folder: Path, *words: str) -> str:
    job = manager.submit(*words, configuration={"execution.checkpointing.savepoint-dir": str(folder / "sp")})
    manager.wait_for(job, "RUNNING")
    return job


def ended(manager: ManagerThread, job: str, answer: tuple[int, Any]) -> dict[str, Any]:
    """Return the result of a trigger's answer, waiting for it."""
    assert answer[0] in (200, 202), answer
    path = f"/jobs/{job}/rescaling/{answer[1]['request-id']}"

    def completed() -> Any:
        found = manager.request("GET", path)[1]
        return found if found["status"]["id"] == "COMPLETED" else None

    return dict(eventually(completed))


def submission(manager: ManagerThread, job: str) -> dict[str, Any]:
    return dict(read_json(manager.home.job(job).submission) or {})


def test_a_job_is_rescaled_and_each_step_is_told(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path)
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    assert found["operation"] == {}
    new = found["pystate"]["job-id"]
    assert (manager.state(job), manager.state(new)) == ("FINISHED", "RUNNING")
    assert submission(manager, new)["parallelism"] == 3
    assert "2/2 Starting it from there with parallelism 3." in found["pystate"]["lines"]
    assert not manager.home.job(job).resubmission.exists()


def test_a_job_that_does_not_come_up_runs_again_as_it_was(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path, "--most", "2")
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    former = found["pystate"]["job-id"]
    assert (submission(manager, former)["parallelism"], manager.state(former)) == (2, "RUNNING")
    message = found["operation"]["failure-cause"]["pystate"]["message"]
    assert message == f"The job was NOT rescaled. It runs as {former} with the parallelism it had."
    assert any("The savepoint does not fit." in line for line in found["pystate"]["lines"])


def test_a_job_is_put_back_to_an_earlier_state(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path)
    body = {"savepoint_path": f"file:{SNAPSHOT}", "parallelism": 2, "allow_non_restored_state": True}
    found = ended(manager, job, manager.request("POST", f"/pystate/jobs/{job}/replacement", body))
    assert found["operation"] == {}
    after = submission(manager, found["pystate"]["job-id"])
    assert after["savepoint_path"] == f"file:{SNAPSHOT}"
    assert after["allow_non_restored_state"]
    assert manager.state(job) == "FINISHED"


def test_a_job_that_does_not_take_the_earlier_state_goes_on_where_it_stopped(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path, "--most", "2")
    body = {"savepoint_path": f"file:{SNAPSHOT}", "parallelism": 3, "allow_non_restored_state": True}
    found = ended(manager, job, manager.request("POST", f"/pystate/jobs/{job}/replacement", body))
    assert "The job was NOT put back." in found["operation"]["failure-cause"]["pystate"]["message"]
    former = submission(manager, found["pystate"]["job-id"])
    assert former["savepoint_path"].startswith(f"{tmp_path}/sp/savepoint-")
    assert not former["allow_non_restored_state"]


def test_what_can_not_be_rescaled_goes_on_and_says_why(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path, "--own-parallelism", "7")
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    assert "The program sets its parallelism itself" in found["operation"]["failure-cause"]["pystate"]["message"]
    assert manager.state(job) == "RUNNING"


def jobs_from(manager: ManagerThread, folder: Path) -> dict[str, str]:
    """Return the jobs that were started from a savepoint of a test, and their states."""
    found = manager.request("GET", "/jobs")[1]["jobs"]
    ours = (one for one in found if str(folder) in str(submission(manager, one["id"])["savepoint_path"]))
    return {one["id"]: one["status"] for one in ours}


def rescaling_of(manager: ManagerThread, job: str) -> dict[str, Any]:
    return dict(manager.request("GET", f"/jobs/{job}")[1]["pystate"]["rescaling"])


def test_a_job_that_finishes_meanwhile_is_not_started_again_and_nothing_is_kept(
    manager: ManagerThread, tmp_path: Path
) -> None:
    job = submit(manager, tmp_path, "--finish-meanwhile")
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    assert "ended (FINISHED) before" in found["operation"]["failure-cause"]["pystate"]["message"]
    assert jobs_from(manager, tmp_path) == {}
    assert not manager.home.job(job).resubmission.exists()
    assert not rescaling_of(manager, job)["unfinished"]


def test_a_successor_that_has_finished_ran_and_is_not_followed_by_another(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path, "--finish-above", "2")
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    assert found["operation"] == {}
    successor = found["pystate"]["job-id"]
    manager.wait_for(successor, "FINISHED")
    assert jobs_from(manager, tmp_path) == {successor: "FINISHED"}


def test_a_successor_that_somebody_cancels_is_not_followed_by_another(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path, "--slow-above", "2")
    answer = manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3")
    (successor,) = eventually(lambda: jobs_from(manager, tmp_path))
    manager.request("PATCH", f"/jobs/{successor}")
    found = ended(manager, job, answer)
    cause = found["operation"]["failure-cause"]["pystate"]
    assert cause["message"] == f"Job {successor} was cancelled before it ran, so that no job runs now."
    assert jobs_from(manager, tmp_path) == {successor: "CANCELED"}
    assert not manager.home.job(job).resubmission.exists()


def test_a_job_whose_program_is_gone_goes_on_and_nothing_is_kept(manager: ManagerThread, tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.touch()
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
    job = manager.submit(job_file=str(program), configuration=settings)
    manager.wait_for(job, "RUNNING")
    program.unlink()
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    assert "does not exist" in found["operation"]["failure-cause"]["pystate"]["message"]
    assert manager.state(job) == "RUNNING"
    assert not manager.home.job(job).resubmission.exists()


def test_a_job_is_not_stopped_for_an_earlier_state_that_is_not_there(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path)
    body = {"savepoint_path": str(tmp_path / "savepoint-none"), "parallelism": 2}
    assert manager.request("POST", f"/pystate/jobs/{job}/replacement", body)[0] == 404
    assert manager.state(job) == "RUNNING"
    assert not manager.home.job(job).rescaling.exists()


def test_a_stopped_job_in_whose_place_none_runs_is_told_of_until_somebody_starts_one(
    manager: ManagerThread, tmp_path: Path
) -> None:
    mark = tmp_path / "once"
    job = submit(manager, tmp_path, "--never-again", str(mark))
    found = ended(manager, job, manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3"))
    assert "NO JOB RUNS NOW" in found["operation"]["failure-cause"]["pystate"]["message"]
    assert rescaling_of(manager, job)["unfinished"]
    mark.unlink()
    manager.request("DELETE", f"/pystate/jobs/{job}/resubmission")  # as `pystate rescale` does in the end
    assert not rescaling_of(manager, job)["unfinished"]


def test_one_job_is_rescaled_once_at_a_time(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path, "--savepoint", "2")
    path = f"/jobs/{job}/rescaling?parallelism=3"
    first = manager.request("PATCH", path)
    status, answer = manager.request("PATCH", path)
    assert (status, answer["errors"]) == (409, [f"Job {job} is being rescaled already."])
    ended(manager, job, first)


@pytest.mark.parametrize("query", ["", "?parallelism=0", "?parallelism=x", "?parallelism=32769"])
def test_a_parallelism_is_needed(manager: ManagerThread, tmp_path: Path, query: str) -> None:
    assert manager.request("PATCH", f"/jobs/{'a' * 32}/rescaling{query}")[0] == 400


def test_who_may_rescale_and_what_is_not_known(manager: ManagerThread, tmp_path: Path) -> None:
    job = submit(manager, tmp_path)
    assert manager.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3", token=False)[0] == 401
    assert manager.request("PATCH", f"/jobs/{'a' * 32}/rescaling?parallelism=3")[0] == 404
    assert manager.request("GET", f"/jobs/{job}/rescaling/{'b' * 32}")[0] == 404


@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_driver_gets_ready_for_a_job_that_is_put_back_also_at_the_parallelism_that_it_has(
    served: InProcess, parallelism: int
) -> None:
    job = served.submit(configuration={"execution.checkpointing.savepoint-dir": str(served.home.root / "sp")})
    spares = Mock(size=0)
    spares.facts.return_value = []
    served.dispatcher.spares = spares
    body = {"savepoint_path": f"file:{SNAPSHOT}", "parallelism": parallelism}
    headers = {"Authorization": f"Bearer {HOME_TOKEN}"}
    assert served.client.post(f"/pystate/jobs/{job}/replacement", json=body, headers=headers).status_code == 202
    eventually(lambda: served.dispatcher.job(job).state().value == "FINISHED")
    (directory, submission, _), _ = spares.reserve.call_args
    assert (directory.path.name, submission.parallelism) == (job, parallelism)

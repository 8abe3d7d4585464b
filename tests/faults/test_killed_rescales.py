"""A job manager killed -9 before each step of a rescale that it does itself: the next one goes on with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.files.home import read_json
from tests.ops.jobmanager.harness import ManagerProcess
from tests.ops.jobmanager.killed_in_a_rescale import DyingManager, lives_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SNAPSHOT = Path(__file__).parents[1] / "fixtures" / "snapshots" / "v0.1.0-format2" / "canonical-hashmap"
PUT_BACK = {"savepoint_path": f"file:{SNAPSHOT}", "parallelism": 3, "allow_non_restored_state": True}
MOST_STEPS = 200


class Case:
    """A job, what is asked of it, and a job manager that dies meanwhile."""

    def __init__(self, folder: Path, words: tuple[str, ...], request: tuple[str, str, Any], step: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.request = request
        self.manager = DyingManager(folder / "home")
        self.manager.dies_before(step)
        self.manager.start()
        settings = {"execution.checkpointing.savepoint-dir": str(folder / "savepoints")}
        self.job = self.manager.submit(*words, configuration=settings)
        self.manager.wait_for(self.job, "RUNNING")
        self.served: ManagerProcess = self.manager

    def run(self) -> bool:
        """Ask for it, and return whether the job manager died over it, in which case another one goes on."""
        method, path, body = self.request
        try:
            self.manager.request(method, path.format(job=self.job), body)
        except OSError:  # no answer: it has died
            wait_until(lambda: self.manager.is_dead)
        died = self.manager.dies_or(lambda: self.told()["ended_at"] is not None and not self.kept)
        if died:
            self.served = ManagerProcess(self.folder / "home").start()
        return died

    def told(self) -> dict[str, Any]:
        return read_json(self.manager.home.job(self.job).rescaling) or {"ended_at": None}

    @property
    def kept(self) -> bool:
        return self.manager.home.job(self.job).resubmission.exists()

    def outcome(self) -> dict[str, Any] | None:
        """Return how it ended; None where it never began, since the one who asked got no answer."""
        found = self.told()
        if "rescaling_id" not in found:
            return None
        path = f"/jobs/{self.job}/rescaling/{found['rescaling_id']}"

        def completed() -> Any:
            answer = self.served.request("GET", path)[1]
            return answer if answer["status"]["id"] == "COMPLETED" else None

        return dict(wait_until(completed))

    def running(self) -> list[str]:
        jobs = self.served.request("GET", "/jobs")[1]["jobs"]
        return [one["id"] for one in jobs if one["status"] not in ("FINISHED", "FAILED", "CANCELED")]

    def submission(self, job: str) -> dict[str, Any]:
        return dict(read_json(self.manager.home.job(job).submission))

    def close(self) -> None:
        self.served.stop()


def every_step(folder: Path, words: tuple[str, ...], request: tuple[str, str, Any]) -> Iterator[tuple[Case, bool]]:
    for step in range(MOST_STEPS):
        case = Case(folder / str(step), words, request, step)
        try:
            died = case.run()
            yield case, died
            check_one_at_a_time(case)
        finally:
            case.close()
        if not died:
            assert step > 30, "there are fewer steps than a rescale has"
            return
    raise AssertionError("the job manager never came to the end of it")


def check_one_at_a_time(case: Case) -> None:
    lives = lives_of(case.manager.home.jobs)
    assert all(end <= begin for (_, end, _), (begin, _, _) in zip(lives, lives[1:], strict=False)), lives
    log = case.manager.home.job(case.job).log.read_text()
    assert log.count("triggered stop") <= 1, "it was stopped twice"


def test_a_rescale_goes_on_whichever_step_the_job_manager_dies_at(tmp_path):
    for case, died in every_step(tmp_path, (), ("PATCH", "/jobs/{job}/rescaling?parallelism=3", None)):
        found = case.outcome()
        if found is None:
            assert case.running() == [case.job]
            continue
        assert found["operation"] == {}, found
        successor = found["pystate"]["job-id"]
        assert case.running() == [successor]
        assert case.submission(successor)["parallelism"] == 3
        assert case.submission(successor)["savepoint_path"].startswith(f"{case.folder}/savepoints/savepoint-")
        assert not case.kept, "secrets are kept no longer than they are needed"
        told = case.served.request("GET", f"/jobs/{case.job}")[1]["pystate"]["rescaling"]
        assert (told["status"]["id"], told["job-id"]) == ("COMPLETED", successor)
        assert died or told["managers"] == 1


def test_a_job_that_does_not_run_at_an_earlier_state_is_put_back_whichever_step_the_job_manager_dies_at(tmp_path):
    request = ("POST", "/pystate/jobs/{job}/replacement", PUT_BACK)
    for case, _ in every_step(tmp_path, ("--most", "2"), request):
        found = case.outcome()
        if found is None:
            assert case.running() == [case.job]
            continue
        former = found["pystate"]["job-id"]
        cause = found["operation"]["failure-cause"]["pystate"]
        assert cause["message"] == f"The job was NOT put back. It runs as {former} with the parallelism it had."
        assert case.running() == [former]
        after = case.submission(former)
        assert after["savepoint_path"].startswith(f"{case.folder}/savepoints/savepoint-")
        assert (after["parallelism"], after["allow_non_restored_state"]) == (2, False)
        assert not case.kept
        failures = case.served.request("GET", f"/jobs/{case.job}/exceptions")[1]["exceptionHistory"]["entries"]
        assert [one["pystate"]["message"] for one in failures] == [cause["message"]]

"""Rescales that a job manager has begun before it died, from what it has written down."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystate.common.files.home import JobDirectory, new_job_id, read_json
from pystate.common.time import current_time_ms
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.rescaling_file import RescalingFile, SuccessorStart
from pystate.runtime.job_folder.resubmission_file import Keeper, Resubmission
from pystate.runtime.rest.operation_messages import RescalingInfo
from pystate_cli.commands.list_jobs import tell_rescaling
from pystate_cli.console.console import Console
from tests.ops.jobmanager.harness import ManagerThread
from tests.ops.jobmanager.rest.test_rescaling import ended

OPERATION = "c" * 32


class Between:
    """A job whose job manager is gone, and what that one has left.

    Attributes:
        served: The next job manager, once it is there.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.served = ManagerThread(folder / "home").start()
        settings = {"execution.checkpointing.savepoint-dir": str(folder / "sp")}
        self.job = self.served.submit(*words, configuration=settings)
        self.served.wait_for(self.job, "RUNNING")
        self.directory: JobDirectory = self.served.home.job(self.job)

    def keep(self) -> None:
        body = {"parallelism": 3, "keeper": OPERATION}
        assert self.served.request("POST", f"/pystate/jobs/{self.job}/resubmission", body)[0] == 200

    def stop(self) -> None:
        """Stop the job as a rescale does."""
        self.keep()
        assert self.served.request("POST", f"/jobs/{self.job}/stop", {"triggerId": OPERATION})[0] == 202
        self.served.wait_for(self.job, "FINISHED")

    def goes_on(self, **changes: Any) -> dict[str, Any]:
        """Return how the rescale ends with the next job manager."""
        intent = RescalingFile(OPERATION, 3, None, without_state=False, began_at=current_time_ms())
        file = {**intent.to_plain(), **changes}
        RescalingFile.from_plain(file).write_to(self.directory.rescaling)
        return self.after()

    def after(self) -> dict[str, Any]:
        self.restart()
        return ended(self.served, self.job, (200, {"request-id": OPERATION}))

    def restart(self) -> None:
        self.served._stack.close()  # its drivers go on
        self.served = ManagerThread(self.folder / "home").start()

    def jobs(self) -> dict[str, str]:
        return {one["id"]: one["status"] for one in self.served.request("GET", "/jobs")[1]["jobs"]}

    def is_rescaled(self, found: dict[str, Any], jobs: int = 2) -> str:
        assert found["operation"] == {}, found
        successor = str(found["pystate"]["job-id"])
        states = self.jobs()
        assert states.pop(successor) == "RUNNING"
        assert len(states) == jobs - 1
        assert "RUNNING" not in states.values()
        assert read_json(self.served.home.job(successor).submission)["parallelism"] == 3
        assert not self.directory.resubmission.exists()
        return successor


@pytest.fixture
def between(tmp_path: Path) -> Any:
    made: list[Between] = []

    def make(*words: str) -> Between:
        made.append(Between(tmp_path, *words))
        return made[-1]

    yield make
    for one in made:
        one.served.stop()


Make = Callable[..., Between]


def test_one_that_had_done_nothing_begins(between: Make) -> None:
    one = between()
    one.is_rescaled(one.goes_on())
    told = one.served.request("GET", "/jobs/overview")[1]["jobs"]
    (rescaling,) = [job["pystate"]["rescaling"] for job in told if job["jid"] == one.job]
    assert (rescaling["managers"], rescaling["status"]["id"], rescaling["unfinished"]) == (2, "COMPLETED", False)


def test_one_whose_job_was_stopped_starts_the_next(between: Make) -> None:
    one = between()
    one.stop()
    one.is_rescaled(one.goes_on())


def test_a_successor_that_was_written_down_and_never_published_is_started_once(between: Make) -> None:
    one = between()
    one.stop()
    starts = [SuccessorStart(new_job_id(), goes_back=False).to_plain()]
    one.is_rescaled(one.goes_on(starts=starts))


def test_a_successor_that_runs_is_followed(between: Make) -> None:
    one = between()
    one.stop()
    chosen = new_job_id()
    body = {"savepoint_path": str(one.folder / "sp"), "parallelism": 3, "job_id": chosen}
    for _ in range(2):  # the same again is the same
        assert one.served.request("POST", f"/pystate/jobs/{one.job}/resubmit", body)[1] == {"job_id": chosen}
    starts = [SuccessorStart(chosen, goes_back=False).to_plain()]
    assert one.is_rescaled(one.goes_on(starts=starts)) == chosen


def test_a_successor_that_does_not_run_is_followed_by_the_job_as_it_was(between: Make) -> None:
    one = between("--most", "2")
    one.stop()
    chosen = new_job_id()
    body = {"savepoint_path": str(one.folder / "sp"), "parallelism": 3, "job_id": chosen}
    one.served.request("POST", f"/pystate/jobs/{one.job}/resubmit", body)
    one.served.wait_for(chosen, "FAILED")
    found = one.goes_on(starts=[SuccessorStart(chosen, goes_back=False).to_plain()])
    former = found["pystate"]["job-id"]
    assert one.jobs() == {one.job: "FINISHED", chosen: "FAILED", former: "RUNNING"}
    assert read_json(one.served.home.job(former).submission)["parallelism"] == 2


def test_what_was_kept_is_deleted_where_the_end_was_written_down(between: Make) -> None:
    one = between()
    one.keep()
    Resubmission({"SECRET": "x"}, 3, None, [Keeper(OPERATION, 3)]).write_to(one.directory.resubmission)
    one.goes_on(ended_at=current_time_ms(), runs=one.job)
    assert not one.directory.resubmission.exists()
    assert one.jobs() == {one.job: "RUNNING"}


def test_a_job_that_was_cancelled_in_between_stays_so(between: Make) -> None:
    one = between()
    one.keep()
    one.served.request("PATCH", f"/jobs/{one.job}")
    one.served.wait_for(one.job, "CANCELED")
    found = one.goes_on()
    assert "has ended" in found["operation"]["failure-cause"]["pystate"]["message"]
    assert one.jobs() == {one.job: "CANCELED"}


@pytest.mark.parametrize("is_stopped", [False, True], ids=["before the stop", "after the stop"])
def test_a_damaged_file_is_left_alone_and_told_with_what_starts_the_job_again(between: Make, is_stopped: bool) -> None:
    one = between()
    if is_stopped:
        one.stop()
    intent = RescalingFile(OPERATION, 3, None, without_state=False, began_at=1)
    content = {**intent.to_file(), "parallelism": 4}
    one.directory.rescaling.write_text(json.dumps(content))
    one.restart()
    assert one.jobs() == {one.job: "FINISHED" if is_stopped else "RUNNING"}
    with pytest.raises(DamagedFileError, match="its checksum is another one"):
        RescalingFile.read_from(one.directory.rescaling)

    (told,) = one.served.request("GET", "/jobs/overview")[1]["jobs"]
    rescaling = told["pystate"]["rescaling"]
    assert (rescaling["status"]["id"], rescaling["unreadable"], rescaling["unfinished"]) == ("COMPLETED", True, is_stopped)
    (failure,) = one.served.request("GET", f"/jobs/{one.job}/exceptions")[1]["exceptionHistory"]["entries"]
    assert failure["exceptionName"].endswith("RescalingUnreadableError")
    console = Console(stderr=(lines := io.StringIO()))
    tell_rescaling(console, one.job, RescalingInfo.from_plain(rescaling))
    for text in (rescaling["failure"]["message"], failure["pystate"]["message"], lines.getvalue()):
        assert "its checksum is another one" in " ".join(text.split())
    assert f"pystate rescale {one.job} -p 2" in rescaling["failure"]["hint"]
    assert one.directory.resubmission.exists() == is_stopped

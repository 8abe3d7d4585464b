"""Another job of a job's program, from a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.files.home import read_json
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

SNAPSHOT = Path(__file__).parents[3] / "fixtures" / "snapshots" / "v0.1.0-format2" / "canonical-hashmap"


@pytest.fixture
def application(tmp_path: Path) -> Iterator[InProcess]:
    started = InProcess(tmp_path / "home")
    yield started
    started.close()


def fork(application: InProcess, job: str, **body: Any) -> Any:
    return application.client.post(f"/pystate/jobs/{job}/fork", json=body, headers={"Authorization": f"Bearer {HOME_TOKEN}"})


def submission(application: InProcess, job: str) -> Any:
    return read_json(application.home.job(job).submission)


def test_a_fork_of_a_running_job_is_its_program_with_the_state_of_the_snapshot(application: InProcess) -> None:
    settings = {"state.backend.type": "rocksdb", "execution.state-recovery.claim-mode": "CLAIM"}
    job = application.submit("--name", "words", configuration=settings, origins={"state.backend.type": "file: /f, [a] b"})
    answer = fork(application, job, savepoint_path=str(SNAPSHOT), parallelism=3, job_name="again")

    assert answer.status_code == 202, answer.text
    forked, origin = submission(application, answer.json()["job_id"]), submission(application, job)
    for same in ("job_file", "arguments", "working_directory", "python", "origins"):
        assert forked[same] == origin[same]
    assert (forked["parallelism"], forked["job_name"], forked["attached"]) == (3, "again", False)
    assert forked["savepoint_path"] == f"file:{SNAPSHOT}"
    assert forked["configuration"] == {"state.backend.type": "rocksdb"}
    kept = [read_json(application.home.job(one).environment) for one in (job, answer.json()["job_id"])]
    assert kept[0] == kept[1]
    assert application.dispatcher.job(job).state().value == "RUNNING"


def test_a_job_that_has_ended_is_forked_with_the_environment_of_the_job_manager(application: InProcess) -> None:
    job = application.submit("--finish", "0", state="FINISHED")
    eventually(lambda: not application.home.job(job).environment.exists())
    answer = fork(application, job, savepoint_path=str(SNAPSHOT), allow_non_restored_state=True)

    forked = answer.json()["job_id"]
    assert read_json(application.home.job(forked).environment) == {}
    assert submission(application, forked)["allow_non_restored_state"] is True


def test_nothing_starts_from_what_is_no_snapshot_or_without_the_program(application: InProcess, tmp_path: Path) -> None:
    job = application.submit()
    assert fork(application, job, savepoint_path=str(tmp_path / "nothing")).status_code == 404
    application.job_file.unlink()
    assert fork(application, job, savepoint_path=str(SNAPSHOT)).status_code == 400
    assert [one.job_id for one in application.dispatcher.jobs()] == [job]

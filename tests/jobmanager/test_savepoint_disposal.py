"""Who may delete a savepoint, and how that is asked for by REST."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.errors import PystateError, SnapshotError
from pystate.common.home import PystateHome, write_json
from pystate.driver.job_liveness import job_runs
from pystate.jobmanager.savepoint_disposal import dispose
from pystate.jobmanager.snapshot_owners import SnapshotInUseError, check_unused
from tests.checkpoint.snapshots import V0, write_checkpoint, write_incremental, write_savepoint
from tests.jobmanager.checkpoint_statistics import Statistics
from tests.jobmanager.harness import Manager, eventually


def folder(location: SnapshotLocation) -> Path:
    return Path(location.uri.removeprefix("file:"))


def disposed(manager: Manager, path: str, prefix: str = "") -> dict[str, Any]:
    status, answer = manager.request("POST", f"{prefix}/savepoint-disposal", {"savepoint-path": path})
    assert (status, list(answer)) == (200, ["request-id"])

    def completed() -> Any:
        result = manager.request("GET", f"{prefix}/savepoint-disposal/{answer['request-id']}")[1]
        assert result["status"]["id"] in ("IN_PROGRESS", "COMPLETED")
        return result if result["status"]["id"] == "COMPLETED" else None

    return dict(eventually(completed)["operation"])


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_savepoint_is_disposed_in_flinks_shapes(manager: Manager, tmp_path: Path, prefix: str) -> None:
    location, other = write_savepoint(tmp_path / "sp"), write_savepoint(tmp_path / "sp", snapshot_id="b" * 12)

    assert disposed(manager, location.uri, prefix) == {}
    assert not folder(location).exists()
    assert (folder(other) / "_metadata").exists()


@pytest.mark.parametrize("make", ["missing", "no metadata", "a file", "another name", "a folder above"])
def test_what_is_no_snapshot_is_not_deleted(manager: Manager, tmp_path: Path, make: str) -> None:
    location = write_savepoint(tmp_path / "sp")
    path = folder(location)
    if make == "missing":
        path = tmp_path / "sp" / "savepoint-83f146-bbbbbbbbbbbb"
    elif make == "no metadata":
        (path / "_metadata").unlink()
    elif make == "a file":
        path = next(path.glob("count-0-keyed*"))
    elif make == "another name":
        path = path.rename(tmp_path / "sp" / "mine")
    else:
        path = tmp_path / "sp"
    before = sorted(tmp_path.rglob("*"))

    cause = disposed(manager, str(path))["failure-cause"]

    assert cause["pystate"]["class"] in ("RestoreError", "SnapshotError")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("body", [{}, {"savepoint-path": ""}, {"savepoint-path": 7}, {"savepoint-path": "a/relative/path"}])
def test_wrong_requests_are_refused_at_once(manager: Manager, body: dict[str, Any]) -> None:
    assert manager.request("POST", "/savepoint-disposal", body)[0] == 400


def test_an_unknown_disposal_is_not_found(manager: Manager) -> None:
    assert manager.request("GET", f"/savepoint-disposal/{'0' * 32}")[0] == 404
    assert manager.request("GET", "/savepoint-disposal/none")[0] == 400


def started(manager: Manager, path: object, *words: str, **changes: Any) -> str:
    job = manager.submit(*words, **({"savepoint_path": str(path)} if path is not None else {}), **changes)
    manager.wait_for(job, "RUNNING")
    return job


@pytest.mark.parametrize("spelling", ["{path}", "{path}/", "file://{path}", "{path}/_metadata", "{link}"])
def test_a_savepoint_stays_while_a_running_job_can_only_go_back_to_it(
    manager: Manager, tmp_path: Path, spelling: str
) -> None:
    location = write_savepoint(tmp_path / "sp")
    (tmp_path / "link").symlink_to(folder(location))
    job = started(manager, spelling.format(path=folder(location), link=tmp_path / "link"))

    cause = disposed(manager, location.uri)["failure-cause"]

    assert cause["class"] == "SnapshotInUseError"
    assert (
        cause["pystate"]["message"] == f"Job {job} was started from it, has not ended, and has no checkpoint of its own yet."
    )
    assert folder(location).exists()


def test_a_savepoint_that_the_configuration_names_counts_too(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    relative = os.path.relpath(folder(location), manager.job_file.parent)
    started(manager, None, configuration={"execution.state-recovery.path": relative})

    assert disposed(manager, location.uri)["failure-cause"]["class"] == "SnapshotInUseError"


def test_a_job_that_has_ended_needs_nothing(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = manager.submit("--finish", "0", savepoint_path=location.uri)
    manager.wait_for(job, "FINISHED")

    assert disposed(manager, location.uri) == {}


def test_a_job_with_a_checkpoint_of_its_own_needs_its_savepoint_no_more(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = started(manager, location.uri)
    statistics = manager.home.job(job).checkpoints
    for kept in (
        Statistics().run(1, savepoint=True),
        Statistics(folder="jobmanager:x").trigger(1),
        Statistics().trigger(1),
    ):
        kept.write(statistics)
        assert "failure-cause" in disposed(manager, location.uri)

    Statistics().run(1).write(statistics)
    assert disposed(manager, location.uri) == {}


def test_checkpoints_in_a_drivers_memory_are_nothing_to_rely_on(home: PystateHome, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = embedded(home, os.getpid())
    statistics = Statistics()
    statistics.tracker.report_restored(3, True, location.uri)
    statistics.trigger(1)
    statistics._pending[1].location = "jobmanager:/checkpoints/chk-1"
    statistics.complete(1)
    statistics.write(home.job(job).checkpoints)

    with pytest.raises(SnapshotInUseError):
        check_unused(home, location)


def test_a_running_jobs_own_checkpoint_is_the_jobs_to_delete(manager: Manager, tmp_path: Path) -> None:
    job = started(manager, None)
    location = write_checkpoint(tmp_path / "ck", 7, job_id=job)

    cause = disposed(manager, location.uri)["failure-cause"]["pystate"]
    assert cause["message"].startswith(f"It is a checkpoint of job {job}, which has not ended")
    manager.request("PATCH", f"/jobs/{job}")
    manager.wait_for(job, "CANCELED")
    assert disposed(manager, location.uri) == {}


def test_what_a_running_jobs_latest_checkpoint_refers_to_stays(manager: Manager, tmp_path: Path) -> None:
    job = started(manager, None)
    location = write_savepoint(tmp_path / "sp")
    shared = next(folder(location).glob("count-0-keyed-*"))
    checkpoint = write_incremental(tmp_path / "ck", shared, snapshot_id="b" * 12)
    statistics = Statistics().trigger(1)
    statistics._pending[1].location = checkpoint.uri
    statistics.complete(1).write(manager.home.job(job).checkpoints)

    cause = disposed(manager, location.uri)["failure-cause"]["pystate"]

    assert cause["message"] == f"The latest checkpoint of job {job}, which has not ended, refers to files in it."


def test_a_damaged_savepoint_can_be_disposed(manager: Manager, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    (folder(location) / "_metadata").write_bytes(b"x")

    assert disposed(manager, location.uri) == {}


# -- without a job manager


@pytest.fixture
def home(tmp_path: Path) -> PystateHome:
    made = PystateHome(tmp_path / "home")
    made.jobs.mkdir(parents=True)
    return made


def embedded(home: PystateHome, pid: int, state: str = "RUNNING") -> str:
    """A plain `python job.py`: it has no record."""
    directory = home.job(V0)
    directory.path.mkdir()
    write_json(directory.status, {"state": state})
    write_json(directory.term, {"driver": "x", "pid": pid})
    return V0


def test_jobs_of_plain_python_are_seen(home: PystateHome, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    job = embedded(home, os.getpid())
    statistics = Statistics()
    statistics.tracker.report_restored(3, True, location.uri)
    statistics.write(home.job(job).checkpoints)

    with pytest.raises(SnapshotInUseError, match=f"Job {job} was started from it"):
        dispose(home, location)


def test_a_killed_one_holds_nothing_back(home: PystateHome, tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")
    process = subprocess.Popen(["true"])
    process.wait()
    embedded(home, process.pid)

    dispose(home, location)
    assert not folder(location).exists()


def test_what_cannot_be_read_holds_everything_back(home: PystateHome, tmp_path: Path) -> None:
    directory = home.job(V0)
    directory.path.mkdir()
    directory.status.write_text("{")

    assert job_runs(home, V0) is True


def test_jobs_are_running_ended_or_unknown(home: PystateHome) -> None:
    assert job_runs(home, V0) is None
    assert job_runs(home, "no id") is None
    embedded(home, os.getpid(), "FINISHED")
    assert job_runs(home, V0) is False


def test_a_home_without_jobs_needs_nothing(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path / "sp")

    check_unused(PystateHome(tmp_path / "none"), location)


def test_a_storage_that_fails_is_one_sentence(home: PystateHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = write_savepoint(tmp_path / "sp")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.rm", refuse)
    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.rm_file", refuse)
    with pytest.raises(SnapshotError, match="Cannot delete .*: Permission denied") as error:
        dispose(home, location)
    assert isinstance(error.value, PystateError)

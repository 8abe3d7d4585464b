"""A job whose sinks commit exactly once goes back to no older checkpoint by itself."""

from __future__ import annotations

import contextlib
import shutil
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CommitError, CorruptSnapshotError, JobExecutionError, RestoreError, SnapshotError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.runtime.checkpoint.retention.fallback_snapshot import FallbackSnapshot
from pystate.runtime.checkpoint.retention.restore_points import RestorePoints
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.driver.failures.execution_failure_handler import ExecutionFailureHandler
from pystate.runtime.driver.older_checkpoints import OlderCheckpoints
from pystate.runtime.driver.scheduler import Scheduler
from pystate.runtime.job_folder.restart_strategies import is_fatal
from tests.runtime.checkpoint.harness import JOB
from tests.waiting import LONGEST_S

RETAINED = {"execution.checkpointing.interval": "1 h", "execution.checkpointing.num-retained": "3"}
GUARDED = OlderCheckpoints(["archive"], allowed=False)
FREE = [OlderCheckpoints([], allowed=False), OlderCheckpoints(["archive"], allowed=True)]
NO_MORE = {"restart-strategy.type": "none"}
TORN = CorruptSnapshotError("A file of the snapshot is damaged.", where="file:/ck/chk-2/state")


def with_checkpoints(bench: Any, *, held: bool) -> Any:
    """A job with two checkpoints, or with one and the savepoint of a stop after it."""
    one = bench(**RETAINED)
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    if held:
        one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    else:
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    return one


def failing(coordinator: Any, rule: OlderCheckpoints, tmp_path: Path, **options: str) -> tuple[Any, list[str]]:
    said: list[str] = []
    scheduler: Any = Mock(_number=0, _older=rule, _say=said.append, _cancelled=threading.Event())
    scheduler._job.coordinator = coordinator
    scheduler._failures = ExecutionFailureHandler(
        Configuration({"restart-strategy.type": "exponential-delay", **options}), JobDirectory(tmp_path)
    )
    scheduler._cancelled.set()
    scheduler._end_after = Future()
    return scheduler, said


def next_driver(tmp_path: Path, rule: OlderCheckpoints, last_completed: int | None) -> tuple[RestorePoints, list[str]]:
    options = {"execution.checkpointing.dir": str(tmp_path / "ck"), **RETAINED}
    points, said = RestorePoints(CheckpointSettings.of(Configuration(options), JOB.job_id), JOB.job_id), list[str]()
    points.recover(said.append, rule.check, last_completed)
    return points, said


def chk(tmp_path: Path, number: int) -> Path:
    (found,) = (tmp_path / "ck").glob(f"*/chk-{number}")
    return found


def damage(snapshot: Path) -> None:
    data = bytearray((snapshot / "_metadata").read_bytes())
    data[len(data) // 2] ^= 1
    (snapshot / "_metadata").write_bytes(data)


def latest(points: Any) -> int:
    return int(points.latest().metadata.checkpoint_id)


@pytest.mark.parametrize("held", [False, True])
def test_a_damaged_snapshot_fails_the_job_for_good_and_says_how_to_go_on(bench, tmp_path, held):
    one = with_checkpoints(bench, held=held)
    scheduler, _ = failing(one.coordinator, GUARDED, tmp_path)
    with pytest.raises(RestoreError) as caught:
        Scheduler.wait_for_restart(scheduler, TORN, "")
    assert scheduler.terminate.call_args.args == (JobStatus.FAILED,)
    assert f"{'savepoint' if held else 'checkpoint'} 2 (file:" in caught.value.message
    assert f"the newest one before it is checkpoint 1 (file:{chk(tmp_path, 1)})" in caught.value.message
    assert "what sink 'archive' committed since would be written twice" in caught.value.message
    assert TORN.message in caught.value.message
    assert TORN.where in caught.value.message
    assert caught.value.hint is not None
    assert f"pystate run -s file:{chk(tmp_path, 1)} PROGRAM" in caught.value.hint
    assert latest(one.coordinator._points) == 2
    one.coordinator.close(JobStatus.FAILED)
    assert (chk(tmp_path, 1) / "_metadata").exists(), "the command that is told goes on from it, whatever is retained"


@pytest.mark.parametrize("rule", FREE)
@pytest.mark.parametrize("held", [False, True])
def test_who_may_goes_back_and_says_that_sinks_write_again(bench, tmp_path, held, rule):
    one = with_checkpoints(bench, held=held)
    scheduler, said = failing(one.coordinator, rule, tmp_path)
    Scheduler.wait_for_restart(scheduler, TORN, "")
    scheduler.terminate.assert_not_called()
    assert latest(one.coordinator._points) == 1
    assert any("The job goes back to the checkpoint before." in line for line in said)
    assert any("becomes visible once more" in line for line in said) is bool(rule.warning)


@pytest.mark.parametrize("hint", ["raise sink.committer.retries", None])
def test_who_fails_for_good_of_a_commit_names_the_checkpoint_that_holds_it_and_keeps_it(bench, tmp_path, hint):
    one = with_checkpoints(bench, held=False)
    scheduler, _ = failing(one.coordinator, GUARDED, tmp_path, **NO_MORE)
    with pytest.raises(CommitError) as caught:
        Scheduler.wait_for_restart(scheduler, CommitError("The sink could not commit.", hint=hint), "")
    command = f"what checkpoint 2 holds is committed by: pystate run -s file:{chk(tmp_path, 2)} ..."
    assert caught.value.hint == (command if hint is None else f"{hint}; {command}")
    assert scheduler.terminate.call_args.kwargs["failure"]["hint"] == caught.value.hint
    one.coordinator.close(JobStatus.FAILED)
    assert (chk(tmp_path, 2) / "_metadata").exists(), "though nothing is retained of failed jobs"


def test_of_other_failures_what_is_not_retained_goes(bench, tmp_path):
    one = with_checkpoints(bench, held=False)
    scheduler, _ = failing(one.coordinator, GUARDED, tmp_path, **NO_MORE)
    with pytest.raises(JobExecutionError) as caught:
        Scheduler.wait_for_restart(scheduler, JobExecutionError("A function failed."), "")
    assert caught.value.hint is None
    one.coordinator.close(JobStatus.FAILED)
    assert not list((tmp_path / "ck").glob("*/chk-*/_metadata"))


def test_a_damaged_checkpoint_without_another_is_a_failure_as_it_is(bench, tmp_path):
    one = bench(**RETAINED)
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    scheduler, _ = failing(one.coordinator, GUARDED, tmp_path)
    with pytest.raises(CorruptSnapshotError) as caught:
        Scheduler.wait_for_restart(scheduler, TORN, "")
    assert caught.value is TORN


def test_the_next_driver_does_not_go_back_either(bench, tmp_path):
    with_checkpoints(bench, held=False)
    damage(chk(tmp_path, 2))
    with pytest.raises(
        RestoreError,
        match="checkpoint 2 .*can't be restored, and the newest one before it is checkpoint 1 .*checksum is wrong",
    ):
        next_driver(tmp_path, GUARDED, 2)
    for rule in FREE:
        points, said = next_driver(tmp_path, rule, 2)
        assert latest(points) == 1
        assert len(said) == 1
        assert "chk-2" in said[0]


def test_a_damaged_checkpoint_before_the_newest_snapshot_is_no_way_back(bench, tmp_path):
    one = with_checkpoints(bench, held=False)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    damage(chk(tmp_path, 2))
    points, _ = next_driver(tmp_path, GUARDED, 2)
    assert latest(points) == 3


@pytest.mark.parametrize("whole", [True, False])
def test_a_newest_checkpoint_that_is_gone_is_no_reason_to_go_back(bench, tmp_path, whole):
    with_checkpoints(bench, held=False)
    gone = chk(tmp_path, 2)
    (gone / "state").write_bytes(b"left")
    if whole:
        shutil.rmtree(gone)
    else:
        (gone / "_metadata").unlink()
    with pytest.raises(
        RestoreError, match=r"checkpoint 2 .*the newest one before it is checkpoint 1 .*there is no _metadata of it"
    ):
        next_driver(tmp_path, GUARDED, 2)
    assert gone.exists() is not whole, "what is left of it stays"
    for rule in FREE:
        points, said = next_driver(tmp_path, rule, 2)
        assert latest(points) == 1
        assert "Checkpoint 2 completed, and is gone" in said[0]
    points, said = next_driver(tmp_path, GUARDED, 1)
    assert (latest(points), said) == (1, []), "one that never completed was never committed"


def test_a_newest_checkpoint_that_a_listing_does_not_show_yet_is_looked_at(bench, tmp_path, monkeypatch):
    with_checkpoints(bench, held=False)
    listed = CheckpointStorageAccess.checkpoint_directories
    monkeypatch.setattr(
        CheckpointStorageAccess, "checkpoint_directories", lambda self: [one for one in listed(self) if one[0] != 2]
    )
    points, said = next_driver(tmp_path, GUARDED, 2)
    assert (latest(points), said) == (2, [])


def test_where_all_is_gone_the_job_does_not_begin_anew(tmp_path):
    CheckpointStorageAccess(str(tmp_path / "ck"), None, JOB.job_id).initialize()
    with pytest.raises(RestoreError, match="none is left: the job would begin again where it was started") as caught:
        next_driver(tmp_path, GUARDED, 2)
    assert "the command that started it" in str(caught.value.hint)
    with pytest.raises(RestoreError, match="none is left: .* all its state would be lost"):
        next_driver(tmp_path, FREE[0], 2)
    points, said = next_driver(tmp_path, FREE[1], 2)
    assert points.latest() is None
    assert "Checkpoint 2 completed, and is gone" in said[0]


@pytest.fixture
def unmounted(tmp_path):
    """Return a context manager in which the job's checkpoints are away, with their directory."""

    @contextlib.contextmanager
    def away():
        (tmp_path / "ck").rename(tmp_path / "elsewhere")
        (tmp_path / "ck").mkdir()
        yield
        shutil.rmtree(tmp_path / "ck")
        (tmp_path / "elsewhere").rename(tmp_path / "ck")

    return away


@pytest.mark.parametrize("rule", [GUARDED, *FREE])
def test_a_storage_that_is_not_mounted_is_waited_for(bench, tmp_path, unmounted, rule):
    one = with_checkpoints(bench, held=False)
    scheduler, said = failing(one.coordinator, rule, tmp_path)
    lost = CorruptSnapshotError("A file of the snapshot is missing.", where=f"file:{chk(tmp_path, 2)}/state")
    with unmounted():
        (tmp_path / "ck" / JOB.job_id / "chk-3").mkdir(parents=True)  # as a checkpoint makes it meanwhile
        Scheduler.wait_for_restart(scheduler, lost, "")
        with pytest.raises(SnapshotError, match="The job's checkpoints were in file:") as caught:
            next_driver(tmp_path, rule, 2)
    scheduler.terminate.assert_not_called()
    assert latest(one.coordinator._points) == 2, "it doesn't go back"
    assert "Attempt 1 starts in" in said[-1]
    assert not is_fatal(caught.value)
    assert "its storage may not be mounted" in caught.value.message
    points, _ = next_driver(tmp_path, rule, 2)
    assert latest(points) == 2


def test_the_option_is_named():
    with pytest.raises(RestoreError) as caught:
        GUARDED.check(FallbackSnapshot("checkpoint 2 (a b)", "Why.", "checkpoint 1 (a c)", "a c"))
    assert caught.value.hint is not None
    assert "-D pystate.recovery.allow-older-checkpoint=true" in caught.value.hint
    assert "-s 'a c'" in caught.value.hint

"""Whose the snapshot is that a job was started from: what is there, and what is gone, after what happened."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import RecoveryClaimMode
from pystate.common.errors import CheckpointFailedError, RestoreError, SnapshotError
from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.snapshot.storage.ownership import claimant
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.jobmanager.disposal.savepoint_disposal import dispose
from pystate.ops.jobmanager.disposal.snapshot_owners import SnapshotInUseError
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.execution.restore import starting_snapshot
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.slot.snapshots.uploaded_files import UploadedFiles
from tests.runtime.checkpoint.harness import TASK, FakeSpark
from tests.runtime.checkpoint.test_shared_state_files import Slots
from tests.waiting import LONGEST_S, wait_until

A, B, C = "a" * 32, "b" * 32, "c" * 32
CLAIM, NO_CLAIM, LEGACY = RecoveryClaimMode.CLAIM, RecoveryClaimMode.NO_CLAIM, RecoveryClaimMode.LEGACY
RETAIN = "RETAIN_ON_CANCELLATION"


class Job:
    """A driver of a job that was perhaps started from a snapshot."""

    def __init__(
        self,
        root: Path,
        job_id: str,
        path: str | None = None,
        mode: RecoveryClaimMode = NO_CLAIM,
        *,
        takes_over: bool = False,
        runs: dict[str, bool] | None = None,
        retained: int = 1,
        retention: str = RETAIN,
        directory: bool = True,
    ) -> None:
        self.root, self.job_id = root, job_id
        folder = root / f"driver-{len(os.listdir(root))}"
        folder.mkdir()
        options = {
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.num-retained": str(retained),
            "execution.checkpointing.externalized-checkpoint-retention": retention,
            "execution.checkpointing.savepoint-dir": str(root / "sp"),
        }
        if directory:
            options["execution.checkpointing.dir"] = str(root / "ck")
        self.coordinator = CheckpointCoordinator(
            JobDescription(job_id, "job", 2, {}, "0", "4.3.0"),
            Configuration(options),
            folder / "checkpoints.json",
        )
        if takes_over:
            self.coordinator.recover(lambda _: None)
        latest = self.coordinator.latest_snapshot()
        starting = starting_snapshot(path, mode, self.coordinator.has_claimed, needed=latest is None)
        task = replace(TASK, head=OperatorSpec("count", "count", OperatorKind.PROCESS, print))
        self.coordinator.start([task], starting, mode, (runs or {}).get)
        self.slots = Slots(f"{job_id[:2]}{folder.name}")
        self.slots.coordinator = self.coordinator
        self.restored = snapshot = self.coordinator.latest_snapshot()
        if snapshot is not None and (not snapshot.starting or mode is not NO_CLAIM):
            for operator in snapshot.metadata.operators:  # the backends go on with the files
                for index, state in operator.subtasks.items():
                    self.slots.uploaded[index] = UploadedFiles(state.keyed_state[0].shared)
        spark = FakeSpark(folder / "spark")
        epochs = EpochCoordinator(self.coordinator, EpochNumbers(folder / "epochs.json"))
        epochs.describe([task])
        epochs.attempt_started(self.slots, spark.directory, -1, -1, print)

    def checkpoint(self, *files: str):
        self.slots.files = [list(files), list(files)]
        return self.coordinator.trigger_checkpoint().result(LONGEST_S)

    def savepoint(self):
        return self.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)

    def close(self, status: JobStatus = JobStatus.CANCELED) -> None:
        self.coordinator.close(status)

    def die(self) -> None:
        self.coordinator.close(JobStatus.RUNNING)


@pytest.fixture
def job(tmp_path):
    made = []

    def make(*arguments, **options):
        made.append(Job(tmp_path, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def path_of(completed) -> Path:
    return Path(completed.path.removeprefix("file:"))


def shared(root: Path, job_id: str) -> list[str]:
    """The state files in a job's shared folder: `checkpoint-file`, one for each subtask."""
    found = [name.split("-") for name in os.listdir(root / "ck" / job_id / "shared") if not name.startswith("use-")]
    return sorted(f"{parts[1]}-{parts[3]}" for parts in found)


def notes(directory: Path) -> list[str]:
    return sorted(name[: len("claim-aaaa")] for name in os.listdir(directory) if name.startswith(("claim-", "use-")))


def ended_job(job, *files: str, **options):
    """Return the checkpoint that a cancelled job has left."""
    one = job(A, **options)
    completed = one.checkpoint(*files)
    one.close()
    return completed


def test_no_claim_refers_to_no_file_of_the_original_and_deletes_none(job, tmp_path):
    old = ended_job(job, "base", "more")
    new = job(B, old.path)
    first = new.checkpoint("base", "more")
    assert all(f"/{B}/shared/" in file.handle.path for file in first.metadata.shared_files), "it is a full one"
    for _ in range(3):
        new.checkpoint("later")
    new.close(JobStatus.FINISHED)
    assert path_of(old).exists()
    assert shared(tmp_path, A) == ["1-base", "1-base", "1-more", "1-more"]
    assert notes(path_of(old)) == notes(tmp_path / "ck" / A / "shared") == []


def test_a_claimed_checkpoint_is_deleted_when_it_is_subsumed_and_the_rest_of_the_folder_stays(job, tmp_path):
    old = ended_job(job, "base", "more")
    (tmp_path / "ck" / A / "notes.txt").write_text("somebody's")
    new = job(B, old.path, CLAIM, retained=2)
    assert claimant(SnapshotLocation(old.path)) == B
    second = new.checkpoint("base", "new")
    assert path_of(old).exists(), "two are retained"
    assert {file.handle.path.split("/")[-3] for file in second.metadata.shared_files} == {A, B}, "it goes on incrementally"
    new.checkpoint("base")
    assert not path_of(old).exists()
    assert shared(tmp_path, A) == ["1-base", "1-base"], "what no checkpoint needs is gone, also from the old job's folder"
    assert (tmp_path / "ck" / A / "notes.txt").exists()
    new.checkpoint("new")
    new.checkpoint("new")
    assert shared(tmp_path, A) == []
    new.close()
    assert notes(tmp_path / "ck" / A / "shared") == []
    assert (tmp_path / "ck" / A).exists()


def test_a_claimed_savepoint_is_deleted_like_a_checkpoint(job, tmp_path):
    taken = job(A).savepoint()
    new = job(B, taken.path, CLAIM, runs={A: True})
    assert path_of(taken).exists()
    new.checkpoint("x")
    assert not path_of(taken).exists()
    assert (tmp_path / "sp").exists()


def test_legacy_goes_on_with_the_files_and_never_deletes_them(job, tmp_path):
    old = ended_job(job, "base", "more")
    new = job(B, old.path, LEGACY)
    first = new.checkpoint("base", "new")
    assert {file.handle.path.split("/")[-3] for file in first.metadata.shared_files} == {A, B}
    new.checkpoint("new")
    new.die()
    again = job(B, old.path, LEGACY, takes_over=True)
    again.checkpoint("other")
    again.close(JobStatus.FINISHED)
    assert path_of(old).exists()
    assert shared(tmp_path, A) == ["1-base", "1-base", "1-more", "1-more"]
    assert claimant(SnapshotLocation(old.path)) is None


def test_a_driver_that_takes_over_before_the_first_checkpoint_still_owns_the_snapshot(job):
    old = ended_job(job, "base")
    job(B, old.path, CLAIM).die()
    again = job(B, old.path, CLAIM, takes_over=True)
    assert again.restored.location.uri == old.path
    again.checkpoint("base")
    assert not path_of(old).exists()


def test_a_driver_that_takes_over_after_a_checkpoint_still_deletes_the_snapshot_and_its_files(job, tmp_path):
    old = ended_job(job, "base", "more")
    first = job(B, old.path, CLAIM, retained=2)
    own = first.checkpoint("base", "more")
    first.die()
    again = job(B, old.path, CLAIM, takes_over=True, retained=2)
    assert again.restored.location.uri == own.path, "the latest is its own"
    again.checkpoint("base")
    assert not path_of(old).exists()
    again.die()
    third = job(B, old.path, CLAIM, takes_over=True, retained=2)
    assert shared(tmp_path, A) == ["1-base", "1-base", "1-more", "1-more"]
    third.checkpoint("base")
    assert shared(tmp_path, A) == ["1-base", "1-base"], "a later driver knows that the files are the job's"
    last = third.checkpoint("base")
    assert (last.metadata.parent, last.metadata.parent_id) == (old.path, f"{A[:6]}-chk-1"), "also when it is gone"


def test_two_jobs_cannot_claim_one_snapshot(job):
    old = ended_job(job, "base")
    job(B, old.path, CLAIM)
    for runs in ({B: True}, {}):  # a job that nobody knows may run elsewhere
        with pytest.raises(RestoreError, match=f"Job {B} has claimed") as refused:
            job(C, old.path, CLAIM, runs=runs)
        assert "no_claim" in str(refused.value)
    assert claimant(SnapshotLocation(old.path)) == B
    assert notes(path_of(old)) == ["claim-bbbb"]
    assert job(C, old.path).restored.location.uri == old.path, "anybody may read it"


def test_what_a_job_claimed_that_has_ended_is_free(job):
    old = ended_job(job, "base")
    job(B, old.path, CLAIM).die()
    job(C, old.path, CLAIM, runs={B: False}).checkpoint("base")
    assert not path_of(old).exists()


def test_a_checkpoint_of_a_running_job_cannot_be_claimed(job):
    first = job(A)
    checkpoint = first.checkpoint("base")
    with pytest.raises(RestoreError, match=f"checkpoint of job {A}, which has not ended"):
        job(B, checkpoint.path, CLAIM, runs={A: True})
    assert notes(path_of(checkpoint)) == []


def test_a_copy_belongs_to_nobody(job, tmp_path):
    old = ended_job(job, "base")
    new = job(B, old.path, CLAIM, retained=2)
    copy = tmp_path / "elsewhere" / path_of(old).name
    shutil.copytree(path_of(old), copy)
    assert claimant(SnapshotLocation(str(copy))) is None
    job(C, str(copy), CLAIM, runs={B: True}).checkpoint("x")
    assert not copy.exists()
    new.checkpoint("base")
    assert path_of(old).exists()


def test_a_snapshot_that_a_job_could_not_delete_cannot_be_claimed(job, tmp_path):
    old = ended_job(job, "base")
    renamed = path_of(old).rename(tmp_path / "my best state")
    with pytest.raises(RestoreError, match="another name"):
        job(B, str(renamed), CLAIM)


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED])
def test_the_only_copy_of_the_state_outlives_the_job_that_claimed_it(job, status):
    old = ended_job(job, "base")
    new = job(B, old.path, CLAIM, retention="NO_EXTERNALIZED_CHECKPOINTS")
    new.close(status)
    assert path_of(old).exists(), "the job never got to a checkpoint of its own"
    assert notes(path_of(old)) == [], "and the next one may claim it"
    assert job(C, old.path, CLAIM).restored.location.uri == old.path


def test_what_a_claiming_job_retains_at_its_end_is_free_for_others_and_whole(job, tmp_path):
    old = ended_job(job, "base", "more")
    new = job(B, old.path, CLAIM, retained=2)
    kept = new.checkpoint("base")
    new.close()
    assert path_of(old).exists()
    assert notes(path_of(old)) == []
    assert notes(tmp_path / "ck" / A / "shared") == ["use-bbbbbb"], "its checkpoint refers to files in there"
    assert shared(tmp_path, A) == ["1-base", "1-base", "1-more", "1-more"]
    third = job(C, kept.path, CLAIM)
    third.checkpoint("other")
    assert not path_of(kept).exists()
    assert shared(tmp_path, A) == ["1-base", "1-base", "1-more", "1-more"], "the first job's checkpoint needs them"


def test_files_that_a_sibling_needs_stay(job, tmp_path):
    first = job(A, retained=2)
    sibling, old = first.checkpoint("base", "more"), first.checkpoint("base")
    first.close()
    new = job(B, old.path, CLAIM)
    new.checkpoint("other")
    assert not path_of(old).exists()
    assert shared(tmp_path, A) == ["1-base", "1-base", "1-more", "1-more"]
    for file in sibling.metadata.shared_files:
        assert os.path.exists(file.handle.path.removeprefix("file:"))


def test_two_jobs_with_siblings_do_not_take_each_others_files(job, tmp_path):
    first = job(A, retained=2)
    one, other = first.checkpoint("base"), first.checkpoint("base")
    first.close()
    b, c = job(B, one.path, CLAIM), job(C, other.path, CLAIM)
    b.checkpoint("base", "b")
    c.checkpoint("c")
    assert shared(tmp_path, A) == ["1-base", "1-base"], "a checkpoint of the other job refers to them"
    b.checkpoint("b")
    assert shared(tmp_path, A) == []


def test_without_a_place_for_checkpoints_the_snapshot_is_never_deleted(job):
    old = ended_job(job, "base")
    new = job(B, old.path, CLAIM, directory=False)
    assert notes(path_of(old)) == []
    new.close(JobStatus.FINISHED)
    assert path_of(old).exists()


def test_a_subsumed_checkpoint_that_could_not_be_deleted_is_told_so_and_tried_again(job, monkeypatch):
    one = job(A)
    first = one.checkpoint("a")

    def fail(self):
        message = "the storage is away"
        raise SnapshotError(message)

    with monkeypatch.context() as broken:
        broken.setattr(SnapshotLocation, "discard", fail)
        one.checkpoint("a")
    assert path_of(first).exists()
    assert one.coordinator.statistics_of(1)["discarded"] is False
    one.checkpoint("a")
    assert not path_of(first).exists()
    assert one.coordinator.statistics_of(1)["discarded"] is True


def test_a_checkpoint_that_times_out_leaves_no_file(tmp_path, job):
    one = job(A)
    one.checkpoint("a")
    one.slots.silent = True
    one.slots.files = [["a", "b"], ["a", "b"]]
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: len(one.slots.requests) == 2)
    request = one.slots.requests[-1]
    one.slots.acknowledge(request, 0)
    for entry in one.coordinator.pending:
        entry.deadline = 0
    with pytest.raises(CheckpointFailedError, match="did not complete within"):
        future.result(LONGEST_S)
    wait_until(lambda: sorted(os.listdir(tmp_path / "ck" / A)) == ["chk-1", "shared", "taskowned"])
    wait_until(lambda: shared(tmp_path, A) == ["1-a", "1-a"])


def test_disposal_respects_claims_and_frees_shared_files(job, tmp_path):
    home = PystateHome(tmp_path / "home")
    first = job(A, retained=2)
    sibling, old = first.checkpoint("base", "more"), first.checkpoint("base", "last")
    first.close()
    new = job(B, old.path, CLAIM, retained=3)
    with pytest.raises(SnapshotInUseError, match=f"Job {B} has claimed it"):
        dispose(home, SnapshotLocation(old.path))
    dispose(home, SnapshotLocation(sibling.path))
    assert shared(tmp_path, A) == ["1-base", "1-base", "2-last", "2-last"], "what only the disposed one needed is gone"
    kept = new.checkpoint("base")
    new.close()
    dispose(home, SnapshotLocation(old.path))
    assert shared(tmp_path, A) == ["1-base", "1-base"], "a checkpoint of the job that had claimed it needs these"
    dispose(home, SnapshotLocation(kept.path))
    assert shared(tmp_path, A) == shared(tmp_path, B) == []

"""The coordinator and incremental checkpoints: which shared files are there after what happened."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import CheckpointFailedError, ControlError
from pystate.common.job_status import JobStatus
from pystate.common.key_groups import key_group_range
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle, SharedFile
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.retention.shared_state_files import SharedStateFiles
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.slot.snapshots.uploaded_files import UploadedFiles
from tests.runtime.checkpoint.harness import SUBTASKS, Bench, CalledSlots
from tests.waiting import LONGEST_S, wait_until

JOB = "a" * 32


class Slots(CalledSlots):
    """Slots whose backends consist of named files; each snapshot uploads what isn't confirmed."""

    def __init__(self, attempt: str = "") -> None:
        self.coordinator: Any = None
        self.files = [["base"], ["base"]]
        self.attempt = attempt
        self.uploaded = [UploadedFiles(), UploadedFiles()]
        self.decline = False
        self.silent = False
        self.requests: list[Any] = []

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        for files in self.uploaded:
            if not completed:
                files.forget(checkpoint_id)
        done: Future[bool] = Future()
        done.set_result(True)
        return done

    def snapshot(self, request: Any) -> None:
        self.requests.append(request)
        for subtask in SUBTASKS:
            if self.decline and subtask == 1:
                message = "no"
                raise ControlError(message)
            if not self.silent:
                self.acknowledge(request, subtask)

    def acknowledge(self, request: Any, subtask: int) -> str:
        location = SnapshotLocation(request.shared) if request.shared else None
        shared, written, uploaded = {}, 4, self.uploaded[subtask]
        for completed in request.completed:
            uploaded.confirm(completed)
        for name in self.files[subtask]:
            if location is None:
                continue
            known = None if request.full else uploaded.confirmed().get(name)
            if known is None:
                data = f"{subtask}-{name}".encode()
                handle = location.absolute(
                    location.write_state(f"{request.shared_prefix}{name}", lambda sink, data=data: sink.write(data), 0)
                )
                again = f"@{request.checkpoint_id}" if request.full else ""
                known = SharedFile(f"{self.attempt}{subtask}/{name}{again}", handle)
                written += len(data)
            shared[name] = known
        uploaded.written(request.checkpoint_id, shared)
        groups = key_group_range(subtask, 2, 128)
        handle = IncrementalKeyedStateHandle(
            groups.start, groups.end, "rocksdb", "id", shared, {}, ByteStreamStateHandle(b"meta"), written
        )
        state = TaskState({"count": OperatorSubtaskState([handle])} if location else {})
        metrics = SubtaskCheckpointMetrics(1, 1, 2, 3, None, state.checkpointed_size, state.state_size)
        arguments = {"uid": "count", "subtask": subtask, "checkpoint_id": request.checkpoint_id}
        plain = {"state": state.packed(), "metrics": metrics.to_plain()}
        return str(answer_slot_call(self.coordinator, "acknowledge", {"parts": [{**arguments, **plain}]})[0])


class IncrementalBench(Bench):
    def __init__(self, tmp_path: Path, *, own: str = "", takes_over: bool = False, **options: str) -> None:
        self.tmp_path = tmp_path
        self.takes_over = takes_over
        (tmp_path / own).mkdir(exist_ok=True)
        tolerable = "execution.checkpointing.tolerable-failed-checkpoints"
        options = {"execution.checkpointing.dir": str(tmp_path / "ck"), tolerable: "100", **options}
        super().__init__(tmp_path / own, {"execution.checkpointing.incremental": "true", **options})
        self.coordinator._tasks[0].head = OperatorSpec("count", "count", OperatorKind.PROCESS, print)
        self.coordinator.attempt_over()
        self.restart()

    def start_attempt(self) -> None:
        if self.takes_over:
            self.coordinator.recover(lambda _: None)
        super().start_attempt()

    def restart(self, attempt: str = "") -> None:
        """Begin another attempt, whose backends are not restored."""
        self.slots = Slots(attempt)  # type: ignore[assignment]
        self.slots.coordinator = self.coordinator
        self.start_attempt()

    def checkpoint(self, *files: str) -> Any:
        self.slots.files = [list(files), list(files)]
        return self.coordinator.trigger_checkpoint().result(LONGEST_S)

    @property
    def shared(self) -> list[str]:
        """The names in the shared directory, without what makes them unique: `checkpoint-file`, one for each subtask."""
        found = os.listdir(self.tmp_path / "ck" / JOB / "shared")
        return sorted(f"{name.split('-')[1]}-{name.split('-')[3]}" for name in found)


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(**options):
        made.append(IncrementalBench(tmp_path, **{key.replace("__", "-"): value for key, value in options.items()}))
        return made[-1]

    yield make
    for one in made:
        one.coordinator.close(JobStatus.CANCELED)


def test_a_file_is_there_once_and_goes_when_no_checkpoint_refers_to_it(bench):
    one = bench()
    first = one.checkpoint("a", "b")
    assert one.shared == ["1-a", "1-a", "1-b", "1-b"]
    second = one.checkpoint("b", "c")
    assert one.shared == ["1-b", "1-b", "2-c", "2-c"], "the first is subsumed, and a with it"
    assert not os.path.exists(first.path.removeprefix("file:"))
    assert (second.metadata.operators[0].state_size, first.metadata.operators[0].state_size) == (20, 20)
    details = one.coordinator.statistics_of(2)
    assert (details["checkpointed_size"], details["state_size"]) == (14, 20), "incremental and full size"
    one.checkpoint("c")
    assert one.shared == ["2-c", "2-c"]


def test_a_full_checkpoint_refers_to_no_older_file_and_the_next_one_goes_on_with_its(bench):
    one = bench(**{"execution.checkpointing.num-retained": "2"})
    one.checkpoint("a")
    one.slots.files = [["a", "b"], ["a", "b"]]
    full = one.coordinator.trigger_checkpoint(full=True).result(LONGEST_S)
    assert one.shared == ["1-a", "1-a", "2-a", "2-a", "2-b", "2-b"]
    assert all("-2-" in file.handle.path for file in full.metadata.shared_files)
    later = one.checkpoint("a", "b", "c")
    assert one.shared == ["2-a", "2-a", "2-b", "2-b", "3-c", "3-c"], "the first is subsumed, and its file with it"
    assert set(full.metadata.shared_files) < set(later.metadata.shared_files)


def test_files_of_all_retained_checkpoints_stay(bench):
    one = bench(**{"execution.checkpointing.num-retained": "2"})
    one.checkpoint("a", "b")
    one.checkpoint("b")
    assert one.shared == ["1-a", "1-a", "1-b", "1-b"]
    one.checkpoint("c")
    assert one.shared == ["1-b", "1-b", "3-c", "3-c"]


def test_a_declined_checkpoint_leaves_no_file_and_the_next_refers_to_none_of_its(bench):
    one = bench()
    one.checkpoint("a")
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.checkpoint("a", "b")
    wait_until(lambda: one.shared == ["1-a", "1-a"])
    one.slots.decline = False
    one.checkpoint("a", "b")
    assert one.shared == ["1-a", "1-a", "3-b", "3-b"]


def test_a_checkpoint_that_is_given_up_leaves_no_file_however_late_its_parts_come(bench):
    one = bench()
    one.checkpoint("a")
    one.slots.silent = True
    one.slots.files = [["a", "b"], ["a", "b"]]
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: len(one.slots.requests) == 2)
    request = one.slots.requests[-1]
    assert one.slots.acknowledge(request, 0) == "SUCCESS"
    one.coordinator.attempt_over()
    with pytest.raises(CheckpointFailedError):
        future.result(LONGEST_S)
    wait_until(lambda: one.shared == ["1-a", "1-a"])
    assert one.slots.acknowledge(request, 1) == "UNKNOWN"
    wait_until(lambda: one.shared == ["1-a", "1-a"])


def test_what_a_dead_slot_has_left_goes_when_the_next_attempt_begins(bench):
    one = bench()
    one.checkpoint("a")
    one.coordinator.attempt_over()
    shared = one.tmp_path / "ck" / JOB / "shared"
    (shared / f".{JOB[:16]}-1-01234567-x.sst-11111111.inprogress").write_bytes(b"half")
    (shared / f"{JOB[:16]}-1-01234567-x.sst-11111111").write_bytes(b"whole")
    (shared / f"{JOB[:16]}-99-01234567-x.sst-11111111").write_bytes(b"of a driver that we don't know")
    (shared / f"{'b' * 16}-1-01234567-x.sst-11111111").write_bytes(b"another job's")
    (shared / "notes.txt").write_bytes(b"somebody's")
    one.restart("again-")
    assert len(list(shared.iterdir())) == 5
    one.checkpoint("a")
    assert len(list(shared.iterdir())) == 5, "the new backend has brought its own, the old one's are gone"


def test_the_second_of_two_uploads_of_one_file_goes_and_the_metadata_refer_to_the_first(bench):
    one = bench(**{"execution.checkpointing.max-concurrent-checkpoints": "2", "execution.checkpointing.num-retained": "3"})
    one.slots.silent = True
    one.slots.files = [["a"], ["a"]]
    futures = [one.coordinator.trigger_checkpoint() for _ in range(2)]
    wait_until(lambda: len(one.slots.requests) == 2)
    for request in one.slots.requests:
        for subtask in SUBTASKS:
            one.slots.acknowledge(request, subtask)
    first, second = (future.result(LONGEST_S) for future in futures)
    assert set(second.metadata.shared_files) == set(first.metadata.shared_files)
    wait_until(lambda: one.shared == ["1-a", "1-a"])
    written = read_metadata(SnapshotLocation(second.path).read_metadata(), second.path)
    assert written.shared_files == second.metadata.shared_files
    one.slots.silent = False
    assert set(one.checkpoint("a").metadata.shared_files) == set(first.metadata.shared_files)


def test_metadata_that_cannot_be_written_take_the_files_along(bench, monkeypatch):
    one = bench()
    one.checkpoint("a")

    def fail(self, data):
        message = "no space"
        raise ControlError(message)

    with monkeypatch.context() as broken:
        broken.setattr(SnapshotLocation, "write_metadata", fail)
        with pytest.raises(CheckpointFailedError, match="no space"):
            one.checkpoint("a", "b")
    wait_until(lambda: one.shared == ["1-a", "1-a"])
    third = one.checkpoint("a", "b")
    assert {os.path.exists(file.handle.path.removeprefix("file:")) for file in third.metadata.shared_files} == {True}


def test_a_savepoint_holds_all_its_state_itself(bench):
    one = bench()
    one.checkpoint("a")
    completed = one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert one.slots.requests[-1].shared is None
    assert completed.metadata.shared_files == []
    assert one.shared == ["1-a", "1-a"]


@pytest.mark.parametrize(
    ("status", "retention", "left"),
    [
        (JobStatus.FINISHED, "RETAIN_ON_CANCELLATION", []),
        (JobStatus.CANCELED, "DELETE_ON_CANCELLATION", []),
        (JobStatus.CANCELED, "RETAIN_ON_CANCELLATION", ["1-a", "1-a"]),
        (JobStatus.FAILED, "DELETE_ON_CANCELLATION", ["1-a", "1-a"]),
        (JobStatus.FAILED, "NO_EXTERNALIZED_CHECKPOINTS", []),
        (JobStatus.RUNNING, "NO_EXTERNALIZED_CHECKPOINTS", ["1-a", "1-a", "1-x"]),
    ],
)
def test_the_end_of_the_job_leaves_what_the_retention_says(bench, status, retention, left):
    one = bench(**{"execution.checkpointing.externalized-checkpoint-retention": retention})
    one.checkpoint("a")
    (one.tmp_path / "ck" / JOB / "shared" / f"{JOB[:16]}-1-01234567-x-11111111").write_bytes(b"an orphan")
    one.coordinator.close(status)
    assert one.shared == left


def test_a_driver_that_takes_over_knows_the_files_of_its_predecessor(bench, tmp_path):
    one = bench(**{"execution.checkpointing.num-retained": "2"})
    one.checkpoint("a", "b")
    last = one.checkpoint("b", "c")
    one.coordinator.close(JobStatus.RUNNING)
    shared = tmp_path / "ck" / JOB / "shared"
    (shared / f"{JOB[:16]}-2-01234567-x-11111111").write_bytes(b"an orphan")
    two = IncrementalBench(tmp_path, own="second", takes_over=True, **{"execution.checkpointing.num-retained": "2"})
    assert two.shared == ["1-a", "1-a", "1-b", "1-b", "2-c", "2-c"], "the orphan is gone"
    handles = {operator.uid: operator for operator in last.metadata.operators}["count"].subtasks
    for subtask in SUBTASKS:
        two.slots.uploaded[subtask] = UploadedFiles(handles[subtask].keyed_state[0].shared)
    two.checkpoint("c", "d")
    assert two.shared == ["1-b", "1-b", "2-c", "2-c", "3-d", "3-d"]
    two.coordinator.close(JobStatus.FINISHED)
    assert two.shared == []


def test_files_of_another_directory_are_never_deleted(tmp_path):
    storage = CheckpointStorageAccess(str(tmp_path), None, JOB)
    storage.initialize()
    state = SharedStateFiles(storage, JOB, writes=True)
    (tmp_path / "theirs").mkdir()
    name = f"{JOB[:16]}-1-01234567-x-11111111"
    for directory in (tmp_path / "theirs", tmp_path / JOB / "shared"):
        (directory / name).write_bytes(b"x")
    state._delete([FileStateHandle(f"file:{tmp_path}/theirs/{name}", 1, 0)])
    state._delete([FileStateHandle(f"file:{tmp_path}/{JOB}/shared/notes.txt", 1, 0)])
    assert (tmp_path / "theirs" / name).exists()
    state._delete([FileStateHandle(f"file:{tmp_path}/{JOB}/shared/{name}", 1, 0)])
    assert not (tmp_path / JOB / "shared" / name).exists()

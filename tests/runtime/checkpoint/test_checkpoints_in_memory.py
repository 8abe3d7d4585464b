"""The coordinator with `execution.checkpointing.storage = jobmanager`: state in the driver's memory, under bounds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, ConfigurationError
from pystate.common.job_status import JobStatus
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.runtime.checkpoint.checkpoint_recovery import recover_checkpoints
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.plan.chain import OperatorSpec
from tests.runtime.checkpoint.harness import JOB, Bench, FakeSlots
from tests.runtime.slot.harness import Count
from tests.waiting import LONGEST_S

MEMORY = {"execution.checkpointing.storage": "jobmanager"}
NO_DIRECTORY = {**MEMORY, "execution.checkpointing.dir": ""}


class StatefulSlots(FakeSlots):
    """Slots whose every subtask acknowledges so many bytes of state, inline."""

    def __init__(self, coordinator, size: int) -> None:
        super().__init__()
        self.coordinator = coordinator
        self.size = size

    def snapshot(self, request) -> None:
        self.snapshots.append(request)
        for subtask, (first, last) in enumerate([(0, 63), (64, 127)]):
            handle = KeyedStateHandle(first, last, "canonical", ByteStreamStateHandle(b"x" * self.size))
            state = TaskState({"count": OperatorSubtaskState([handle])})
            metrics = SubtaskCheckpointMetrics(
                ack_timestamp=int(time.time() * 1000),
                sync_ms=0,
                async_ms=0,
                start_delay_ms=0,
                alignment_ms=None,
                checkpointed_size=self.size,
                state_size=self.size,
            )
            arguments = {"uid": "count", "subtask": subtask, "checkpoint_id": request.checkpoint_id}
            arguments |= {"state": state.packed(), "metrics": metrics.to_plain()}
            answer_slot_call(self.coordinator, "acknowledge", {"parts": [arguments]})


@pytest.fixture
def make(tmp_path):
    made = []

    def bench(options: dict[str, str], size: int = 10) -> Bench:
        one = Bench(tmp_path, options)
        made.append(one)
        one.coordinator._tasks[0].head = OperatorSpec("count", "count", OperatorKind.PROCESS, Count())
        one.slots = StatefulSlots(one.coordinator, size)
        one.start_attempt()
        return one

    yield bench
    for one in made:
        one.coordinator.close(JobStatus.CANCELED)


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def checkpoint(one: Bench):
    return one.coordinator.trigger_checkpoint().result(LONGEST_S)


def test_a_checkpoint_is_kept_in_memory_and_restored_from(make, tmp_path):
    one = make({**NO_DIRECTORY, "execution.checkpointing.interval": "1 h"})
    one.epoch(0)
    completed = checkpoint(one)
    (request,) = one.slots.snapshots
    assert request.location == completed.path == f"jobmanager:/{JOB.job_id}/chk-{completed.checkpoint_id}"
    assert request.inline_threshold == 5 << 20, "the bound of one state"
    one.coordinator.attempt_over()
    snapshot = one.coordinator.latest_snapshot()
    assert snapshot.metadata.checkpoint_id == completed.checkpoint_id
    (operator,) = snapshot.metadata.operators
    with snapshot.location.open(operator.subtasks[1].keyed_state[0].handle) as file:
        assert file.read() == b"x" * 10
    with snapshot.location.open(snapshot.metadata.source_position.files) as file:
        assert file.read(), "Spark's logs are there, too"
    assert not (tmp_path / "ck").exists()


def test_only_the_retained_checkpoints_are_kept(make):
    one = make({**NO_DIRECTORY, "execution.checkpointing.num-retained": "2"})
    one.epoch(0)
    ids = [checkpoint(one).checkpoint_id for _ in range(4)]
    assert [kept.checkpoint_id for kept in one.coordinator._points._store.checkpoints] == ids[-2:]


def test_a_savepoint_goes_to_files(make, tmp_path):
    one = make({**NO_DIRECTORY, "execution.checkpointing.data-inline-threshold": "7 b"})
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert completed.path.startswith(f"file:{tmp_path}/sp/savepoint-")
    (request,) = one.slots.snapshots
    assert (request.location, request.inline_threshold) == (completed.path, 7)
    assert SnapshotReader(completed.path).metadata.checkpoint_id == completed.checkpoint_id


def test_with_a_directory_the_checkpoint_is_one_metadata_file_that_a_later_driver_finds(make, tmp_path):
    one = make(MEMORY)
    one.epoch(0)
    completed = checkpoint(one)
    assert completed.path == f"file:{tmp_path}/ck/{JOB.job_id}/chk-{completed.checkpoint_id}"
    assert files(tmp_path / "ck") == [f"{JOB.job_id}/chk-{completed.checkpoint_id}/_metadata"]
    (request,) = one.slots.snapshots
    assert request.location.startswith("jobmanager:/"), "subtasks write nowhere"
    storage = CheckpointSettings.of(
        Configuration({**MEMORY, "execution.checkpointing.dir": str(tmp_path / "ck")}), JOB.job_id
    )
    (found,) = recover_checkpoints(storage.storage, JOB.job_id, pytest.fail).completed
    assert found.metadata == completed.metadata
    newer = checkpoint(one)
    assert files(tmp_path / "ck") == [f"{JOB.job_id}/chk-{newer.checkpoint_id}/_metadata"], "the older one is subsumed"


def test_sparks_logs_count_as_state(make):
    one = make({**NO_DIRECTORY, "pystate.checkpoint.jobmanager.max-state-size": "10 b"})
    one.epoch(0)
    with pytest.raises(CheckpointFailedError, match="larger than the maximum permitted memory-backed state") as error:
        checkpoint(one)
    assert error.value.where == "spark-logs"
    assert "execution.checkpointing.storage = filesystem" in error.value.hint


def test_a_checkpoint_above_the_drivers_bound_fails(make):
    one = make({**NO_DIRECTORY, "pystate.checkpoint.jobmanager.max-checkpoint-size": "1000 b"}, size=500)
    one.epoch(0)
    checkpoint(one)
    one.slots.size = 501
    with pytest.raises(
        CheckpointFailedError, match=r"larger than the driver may keep in memory. Size=1002, maxSize=1000\."
    ) as e:
        checkpoint(one)
    assert "max-checkpoint-size" in e.value.hint
    assert one.coordinator.statistics()["history"][0]["failure_message"].startswith("The checkpoint could not be finalized.")
    # a savepoint is bounded by its filesystem only
    one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)


def test_files_need_a_directory_when_they_are_asked_for(tmp_path):
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir is not set"):
        Bench(tmp_path, {"execution.checkpointing.storage": "filesystem", "execution.checkpointing.dir": ""})

from __future__ import annotations

from collections.abc import Callable

import pytest

from pystate.common.configuration.groups.checkpointing_options import ExternalizedCheckpointRetention
from pystate.common.job_status import JobStatus
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.id_counter import CheckpointIdCounter
from pystate.runtime.checkpoint.retention.completed_store import CompletedCheckpointStore

Make = Callable[..., CompletedCheckpoint]
RETAIN = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
DELETE = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
NONE = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS


def ids(checkpoints: list[CompletedCheckpoint]) -> list[int]:
    return [checkpoint.checkpoint_id for checkpoint in checkpoints]


def test_a_new_checkpoint_subsumes_the_oldest(make_completed: Make) -> None:
    store = CompletedCheckpointStore(2)
    assert store.latest is None
    assert [ids(store.add(make_completed(n))) for n in (1, 2, 3, 4)] == [[], [], [1], [2]]
    assert store.latest == make_completed(4)
    assert ids(store.checkpoints) == [3, 4]


def test_a_late_older_checkpoint_does_not_become_the_latest(make_completed: Make) -> None:
    store = CompletedCheckpointStore(1)
    store.add(make_completed(5))
    assert ids(store.add(make_completed(4))) == [4]
    assert store.latest == make_completed(5)


def test_savepoints_neither_count_nor_subsume_nor_are_gone_back_to(make_completed: Make) -> None:
    store = CompletedCheckpointStore(1)
    store.add(make_completed(1))
    assert store.add(make_completed(2, savepoint=True)) == []
    assert store.latest == make_completed(1)
    assert ids(store.add(make_completed(3))) == [1]


def test_a_savepoint_recovered_from_is_let_go_of_but_not_deleted(make_completed: Make) -> None:
    store = CompletedCheckpointStore(1)
    store.recover([make_completed(35, savepoint=True)])
    assert store.latest is not None and store.latest.checkpoint_id == 35
    assert store.add(make_completed(36)) == []
    assert ids(store.checkpoints) == [36]


def test_a_checkpoint_of_another_job_is_never_deleted(make_completed: Make) -> None:
    store = CompletedCheckpointStore(1)
    store.recover([make_completed(9, owned=False)])
    assert store.add(make_completed(10)) == []
    store.recover([make_completed(9, owned=False)])
    assert store.discard_on(JobStatus.FINISHED, NONE) == []


def test_recovery_sorts_by_id(make_completed: Make) -> None:
    store = CompletedCheckpointStore(3)
    store.recover(make_completed(n) for n in (3, 1, 2))
    assert ids(store.checkpoints) == [1, 2, 3]
    assert ids(store.add(make_completed(4))) == [1]


@pytest.mark.parametrize(
    ("status", "retention", "deleted"),
    [
        (JobStatus.FINISHED, RETAIN, True),
        (JobStatus.FINISHED, DELETE, True),
        (JobStatus.FINISHED, NONE, True),
        (JobStatus.CANCELED, RETAIN, False),
        (JobStatus.CANCELED, DELETE, True),
        (JobStatus.CANCELED, NONE, True),
        (JobStatus.FAILED, RETAIN, False),
        (JobStatus.FAILED, DELETE, False),
        (JobStatus.FAILED, NONE, True),
    ],
)
def test_what_stays_at_the_end_is_flinks_rule(
    make_completed: Make, status: JobStatus, retention: ExternalizedCheckpointRetention, deleted: bool
) -> None:
    store = CompletedCheckpointStore(2)
    store.add(make_completed(1))
    store.add(make_completed(2))
    assert ids(store.discard_on(status, retention)) == ([1, 2] if deleted else [])
    assert store.checkpoints == []


@pytest.mark.parametrize("status", [status for status in JobStatus if not status.is_terminal])
def test_a_job_that_has_not_ended_keeps_all(make_completed: Make, status: JobStatus) -> None:
    store = CompletedCheckpointStore(1)
    store.add(make_completed(1))
    assert store.discard_on(status, NONE) == []
    assert store.latest == make_completed(1)


def test_at_least_one_checkpoint_is_retained() -> None:
    with pytest.raises(ValueError, match="At least one"):
        CompletedCheckpointStore(0)


def test_ids_go_on_above_the_restored_one_and_never_back() -> None:
    counter = CheckpointIdCounter()
    assert [counter.get_and_increment() for _ in range(2)] == [1, 2]
    counter.continue_above(35)
    assert counter.get_and_increment() == 36
    counter.continue_above(7)
    assert counter.get_and_increment() == 37

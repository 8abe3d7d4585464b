"""The epochs of a job over its attempts and drivers, where each of them carries a barrier."""

from pystate.common.job_status import JobStatus
from tests.runtime.checkpoint.harness import SUBTASKS, acknowledge
from tests.waiting import wait_until

EVERY_EPOCH = {"execution.checkpointing.every-epoch": "true"}


def test_the_epoch_that_ran_is_run_again_only_after_the_snapshot_that_it_ran_after(bench):
    one = bench(**EVERY_EPOCH)
    one.begin(0)
    assert one.epochs.running_epoch(None).epoch == 0
    barrier = one.end(0)
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    wait_until(lambda: one.coordinator.latest_snapshot() is not None)
    first = one.coordinator.latest_snapshot()
    assert one.epochs.running_epoch(first) is None, "it is in the snapshot"
    one.begin(1)
    running = one.epochs.running_epoch(first)
    assert (running.epoch, running.batch, sorted(running.files)) == (1, 1, ["metadata", "offsets/1", "pystate-sources"])
    assert one.epochs.running_epoch(None) is None


def test_the_epoch_that_ran_is_forgotten_once_the_job_has_ended_and_not_before(bench):
    one = bench(**EVERY_EPOCH)
    one.begin(0)
    one.epochs.close(JobStatus.RUNNING)
    assert one.epochs.running_epoch(None).epoch == 0
    one.epochs.close(JobStatus.CANCELED)
    assert one.epochs.running_epoch(None) is None


def test_without_a_barrier_on_each_epoch_none_is_written_down(bench):
    one = bench()
    one.begin(0)
    assert one.epochs.running_epoch(None) is None

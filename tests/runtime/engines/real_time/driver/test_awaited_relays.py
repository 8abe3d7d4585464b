"""Nothing begins on the real-time engine before all relays have come: late ones, ones that fail, and ones that never do."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest

from pystate.common.errors import ControlError, PystateError
from pystate.common.job_status import JobStatus
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.local_relays import LocalRelays
from tests.runtime.engines.real_time.driver.programs import counts
from tests.waiting import LONGEST_S, wait_until

NO_RESTART = {
    "restart-strategy.type": "none",
    "restart-strategy.fixed-delay.attempts": None,
    "restart-strategy.fixed-delay.delay": None,
}


class AwaitedRelays:
    """Relays that come when they are told to."""

    directly = False

    def __init__(self):
        self.made = self.came = self.failed = None
        self.looked = threading.Event()
        self.alone_from = 1
        self.asked = []

    def __call__(self, *start):
        self.made = start
        return self

    def come(self):
        self.came = LocalRelays(*self.made)

    def alone(self):
        self.asked.append(len(self.asked) + 1)
        if self.alone_from is None:
            message = "another user is connected"
            raise ControlError(message)
        return self.asked[-1] >= self.alone_from

    def failure(self):
        self.looked.set()  # which is between two waits of the slots
        return self.failed if self.came is None else self.came.failure()

    def stop(self):
        if self.came is not None:
            self.came.stop()


def spark_without_tasks():
    spark = Mock()
    spark.sparkContext.statusTracker.return_value.getActiveStageIds.return_value = []
    return spark


@pytest.fixture
def job(tmp_path):
    made = []

    def make(**options):
        relays = AwaitedRelays()
        made.append(
            RealTimeJob(tmp_path / ("a" * 8), counts(3000, 100_000), relays=relays, spark=spark_without_tasks(), **options)
        )
        return made[-1], relays

    yield make
    for one in made:
        one.close()


def test_a_job_runs_and_takes_checkpoints_once_its_relays_have_come(job):
    one, relays = job(**{"execution.checkpointing.interval": "10 ms"})
    assert relays.looked.wait(LONGEST_S)
    assert one.status.state is not JobStatus.RUNNING
    assert one.coordinator.statistics()["counts"]["total"] == 0
    relays.come()
    assert one.end() is JobStatus.FINISHED
    assert one.completed() >= 1


def test_relays_that_fail_before_they_come_fail_the_attempt_with_their_reason(job):
    one, relays = job(**NO_RESTART)
    relays.failed = ControlError("no executor wanted them"), "the trace"
    with pytest.raises(PystateError, match="no executor wanted them"):
        one.end()
    assert one.status.state is JobStatus.FAILED
    assert one.status.snapshot()["failure"]["stack_trace"] == "the trace"


def test_relays_that_never_come_fail_the_attempt_in_a_sentence(job):
    one, _ = job(**NO_RESTART, **{"pystate.slot.startup-timeout": "6 s"})
    with pytest.raises(PystateError, match="The relays of .* slots came to them within 6 s") as failed:
        one.end()
    assert "startup-timeout" in failed.value.hint or "busy" in failed.value.hint


def test_a_job_that_waits_for_relays_can_be_cancelled(job):
    one, relays = job(**{"pystate.slot.startup-timeout": "10 min"})
    assert relays.looked.wait(LONGEST_S)
    one.master.cancel()
    wait_until(lambda: not one.thread.is_alive())
    assert one.status.state is JobStatus.CANCELED


def test_no_record_moves_before_relays_are_connected_to_each_other_and_nobody_else_can_be(job):
    one, relays = job()
    relays.alone_from = 3
    assert relays.looked.wait(LONGEST_S)
    relays.come()
    assert one.end() is JobStatus.FINISHED
    assert relays.asked == [1, 2, 3]


def test_another_user_between_relays_fails_the_attempt(job):
    one, relays = job(**NO_RESTART)
    relays.alone_from = None
    assert relays.looked.wait(LONGEST_S)
    relays.come()
    with pytest.raises(PystateError, match="another user is connected"):
        one.end()

"""A driver that was replaced while it waited for its next attempt leaves the job's files and checkpoints alone."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import DriverReplacedError, SnapshotError
from pystate.common.job_status import JobStatus
from pystate.runtime.driver import job_master
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.driver.scheduler import Scheduler
from pystate.runtime.execution.execution_attempt import AttemptOutcome
from pystate.runtime.plan.task import JobEnvironment

REPLACED = DriverReplacedError("Another driver has taken the job over.")


def job(error: Exception) -> Mock:
    """A job whose driver has been replaced, or can't tell."""
    return Mock(configuration=Configuration({}), term=Mock(check=Mock(side_effect=error)))


@pytest.mark.parametrize("error", [REPLACED, SnapshotError("Nobody can tell.")])
def test_it_begins_no_attempt(tmp_path, error):
    scheduler, restore = Mock(_job=job(error), _number=1), Mock()
    scheduler._create = lambda *arguments: Scheduler._create(scheduler, *arguments)
    environment = JobEnvironment("a" * 32, "job", 0, {}, "hashmap", 0, "")
    end = Scheduler._run_attempt(scheduler, Mock(), restore, environment, tmp_path)
    assert (end.outcome, end.error) == (AttemptOutcome.FAILED, error)
    restore.restored.assert_not_called()
    scheduler._engine.attempt.assert_not_called()
    scheduler._status.update.assert_not_called()


def test_it_cleans_nothing_up(monkeypatch):
    monkeypatch.setattr(job_master, "plan_job", lambda *_, **__: None)
    master = Mock(_job=job(REPLACED))
    with pytest.raises(DriverReplacedError):
        JobMaster._prepare(master, taken_over=True)
    master.coordinator.recover.assert_not_called()


def test_it_ends_where_other_errors_are_waited_out():
    master = Mock(_status=Mock(attempt=1), _scheduler=Mock(is_cancelled=False))
    master._prepare = Mock(side_effect=[SnapshotError("out of reach"), REPLACED])
    with pytest.raises(DriverReplacedError):
        JobMaster._run(master)
    assert master._scheduler.wait_for_restart.call_count == 1
    assert (JobStatus.FAILED,) not in [call.args for call in master._status.update.call_args_list]

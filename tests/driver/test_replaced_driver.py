"""A driver that was replaced while it waited for its next attempt leaves the job's files and checkpoints alone."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from pystate.common.configuration import Configuration
from pystate.common.errors import DriverReplacedError, SnapshotError
from pystate.common.job_status import JobStatus
from pystate.driver import job_master
from pystate.driver.execution_attempt import AttemptOutcome
from pystate.driver.job_master import JobMaster


def waiting(error: Exception) -> SimpleNamespace:
    """The parts of a job master that begin an attempt."""
    return SimpleNamespace(
        _configuration=Configuration({}),
        _graph=None,
        _spark=Mock(),
        _say=Mock(),
        _waits=Mock(),
        _term=Mock(check=Mock(side_effect=error)),
        _status=Mock(),
        _restored=Mock(),
        _failures=Mock(),
        _check_spark=Mock(),
        _wait_for_restart=Mock(),
        _cancelled=threading.Event(),
        _number=1,
        coordinator=Mock(),
    )


REPLACED = DriverReplacedError("Another driver has taken the job over.")


@pytest.mark.parametrize("error", [REPLACED, SnapshotError("Nobody can tell.")])
def test_it_begins_no_attempt(tmp_path, error):
    master = waiting(error)
    end = JobMaster._run_attempt(master, None, [], None, None, tmp_path)  # type: ignore[arg-type]
    assert (end.outcome, end.error) == (AttemptOutcome.FAILED, error)
    master._restored.assert_not_called()
    master._status.update.assert_not_called()


def test_it_cleans_nothing_up(monkeypatch):
    monkeypatch.setattr(job_master, "plan_job", lambda *_, **__: (None, []))
    master = waiting(REPLACED)
    with pytest.raises(DriverReplacedError):
        JobMaster._prepare(master, taken_over=True)  # type: ignore[arg-type]
    master.coordinator.recover.assert_not_called()


def test_it_ends_where_other_errors_are_waited_out():
    master = waiting(REPLACED)
    master._prepare = Mock(side_effect=[SnapshotError("out of reach"), REPLACED])
    with pytest.raises(DriverReplacedError):
        JobMaster.run(master)  # type: ignore[arg-type]
    assert master._wait_for_restart.call_count == 1
    assert (JobStatus.FAILED,) not in [call.args for call in master._status.update.call_args_list]

from __future__ import annotations

from unittest.mock import Mock

import pytest

from pystate.common.errors import JobTerminatedError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.drivers.driver_gateway import DriverUnreachableError
from pystate.ops.jobmanager.supervision.cached_operations import GOES_ON, CachedOperationsHandler, Trigger, Triggers
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.operation_file import OperationFile, OperationKind


def test_the_job_manager_knows_as_many_triggers_as_there_are_results():
    triggers = Triggers()
    ids = [f"{number:032x}" for number in range(1500)]
    for trigger_id in ids:
        triggers.add(trigger_id, Trigger(OperationKind.SAVEPOINT, 1))
    assert len(triggers) == 1000
    assert triggers.get(ids[0]) is None
    assert triggers.get(ids[-1]) == Trigger(OperationKind.SAVEPOINT, 1)


@pytest.mark.parametrize(("lost", "closed", "told"), [(True, False, True), (False, False, False), (True, True, False)])
def test_what_is_asked_of_a_driver_that_has_died_says_that_the_job_goes_on(tmp_path, lost, closed, told):
    unreachable = DriverUnreachableError("The job's driver (process 7) can't be reached.", where="Connection refused")
    gateway = Mock(is_closed=closed, has_lost=Mock(return_value=lost), call=Mock(side_effect=unreachable))
    record = Mock(current=Mock(job_id="ab" * 16, pid=7))
    status = Mock(current=Mock(return_value=JobStatusFile(JobStatus.RUNNING)))
    handler = CachedOperationsHandler(record, JobDirectory(tmp_path), gateway, status)
    with pytest.raises(DriverUnreachableError) as refused:
        handler.trigger("stop", None)
    assert (GOES_ON in refused.value.message) is told
    assert (refused.value.hint is not None) is told


def test_a_job_that_has_ended_while_it_was_asked_does_not_go_on(tmp_path):
    unreachable = DriverUnreachableError("The job's driver (process 7) can't be reached.", where="Connection refused")
    gateway = Mock(is_closed=False, has_lost=Mock(return_value=True), call=Mock(side_effect=unreachable))
    seen = [JobStatusFile(JobStatus.RUNNING), JobStatusFile(JobStatus.FINISHED)]
    handler = CachedOperationsHandler(
        Mock(current=Mock(job_id="ab" * 16, pid=7)), JobDirectory(tmp_path), gateway, Mock(current=Mock(side_effect=seen))
    )
    with pytest.raises(JobTerminatedError, match=r"The job ended \(FINISHED\) before its savepoint was complete\."):
        handler.trigger("trigger_savepoint", None)


def test_a_driver_that_stopped_its_job_and_ended_before_it_answered_has_done_it(tmp_path):
    directory = JobDirectory(tmp_path)
    directory.operations.mkdir(parents=True)

    def stop_and_end(_op, trigger_id, **_):
        OperationFile(OperationKind.STOP, location="file:/sp/savepoint-1").write_to(directory.operation(trigger_id))
        message = "The job's driver (process 7) can't be reached."
        raise DriverUnreachableError(message, where="Connection reset")

    gateway = Mock(is_closed=False, has_lost=Mock(return_value=True), call=stop_and_end)
    seen = [JobStatusFile(JobStatus.RUNNING), JobStatusFile(JobStatus.FINISHED)]
    handler = CachedOperationsHandler(
        Mock(current=Mock(job_id="ab" * 16, pid=7)), directory, gateway, Mock(current=Mock(side_effect=seen))
    )
    assert handler.result(handler.trigger("stop", None))["location"] == "file:/sp/savepoint-1"

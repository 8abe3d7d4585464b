from __future__ import annotations

from pystate.job_folder.operation import OperationKind
from pystate.jobmanager.cached_operations import Trigger, Triggers


def test_the_job_manager_knows_as_many_triggers_as_there_are_results():
    triggers = Triggers()
    ids = [f"{number:032x}" for number in range(1500)]
    for trigger_id in ids:
        triggers.add(trigger_id, Trigger(OperationKind.SAVEPOINT, 1))
    assert len(triggers) == 1000
    assert triggers.get(ids[0]) is None
    assert triggers.get(ids[-1]) == Trigger(OperationKind.SAVEPOINT, 1)

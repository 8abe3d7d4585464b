"""Waiting for what a job was asked for."""

from __future__ import annotations

import pytest

from pystate.runtime.rest.operation_messages import CheckpointResult, DisposalResult, SavepointResult
from pystate_cli.client.rest_client import BACK_AGAIN, NoJobManagerError
from pystate_cli.running.waiting import await_operation

JOB, TRIGGER = "ab" * 16, "cd" * 16


class DeadJobManager:
    """It has taken the request, and died."""

    def get(self, path, kind):
        problem = "No job manager answers."
        raise NoJobManagerError(problem, hint=BACK_AGAIN)


@pytest.mark.parametrize(("kind", "word"), [(SavepointResult, "savepoint"), (CheckpointResult, "checkpoint")])
def test_a_job_manager_that_dies_meanwhile_says_nothing_of_what_the_job_does(kind, word):
    with pytest.raises(NoJobManagerError) as caught:
        await_operation(DeadJobManager(), f"/jobs/{JOB}/{word}s/{TRIGGER}", kind)

    told = f"No job manager answers. The {word} was triggered, and may be completed all the same."
    assert caught.value.message == told
    assert caught.value.hint == f"{BACK_AGAIN}; then pystate {word} {JOB} --trigger-id {TRIGGER} tells what has become of it"


def test_what_the_job_manager_does_itself_ends_with_it():
    with pytest.raises(NoJobManagerError) as caught:
        await_operation(DeadJobManager(), f"/savepoint-disposal/{TRIGGER}", DisposalResult)

    assert caught.value.message == "No job manager answers."

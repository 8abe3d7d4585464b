"""What a save leads to."""

from __future__ import annotations

import pytest

from pystate.common.job_status import JobStatus
from pystate_cli.dev.decisions import Decision, Situation, Step, decide

SNAPSHOT = "file:/savepoints/1"
ALIVE = [one for one in JobStatus if not one.is_terminal]
ENDED = [one for one in JobStatus if one.is_terminal]


@pytest.mark.parametrize("state", ALIVE)
def test_what_does_not_fit_leaves_the_job_as_it_is(state):
    assert decide(Situation(fits=False, state=state, snapshot=SNAPSHOT)) == Decision(Step.KEEP)


@pytest.mark.parametrize("state", [None, *ENDED])
def test_what_does_not_fit_waits_for_the_next_save_where_no_job_runs(state):
    assert decide(Situation(fits=False, state=state, snapshot=SNAPSHOT)) == Decision(Step.WAIT)


@pytest.mark.parametrize("snapshot", [None, SNAPSHOT])
def test_the_first_version_starts_from_what_the_command_names(snapshot):
    assert decide(Situation(fits=True, state=None, snapshot=snapshot)) == Decision(Step.START, snapshot)


def test_a_running_job_is_replaced_from_a_savepoint_that_its_stop_takes():
    assert decide(Situation(fits=True, state=JobStatus.RUNNING, snapshot=SNAPSHOT)) == Decision(Step.REPLACE)


@pytest.mark.parametrize("state", [one for one in ALIVE if one is not JobStatus.RUNNING])
def test_a_job_that_cannot_be_stopped_with_a_savepoint_goes_back_to_its_last_one(state):
    assert decide(Situation(fits=True, state=state, snapshot=SNAPSHOT)) == Decision(Step.RESTART, SNAPSHOT)


@pytest.mark.parametrize("state", ENDED)
def test_a_job_that_has_ended_starts_from_its_last_snapshot(state):
    assert decide(Situation(fits=True, state=state, snapshot=SNAPSHOT)) == Decision(Step.START, SNAPSHOT)


@pytest.mark.parametrize("state", ENDED)
def test_a_job_that_has_read_all_of_its_input_starts_anew_where_that_is_asked_for(state):
    expected = None if state is JobStatus.FINISHED else SNAPSHOT
    found = decide(Situation(fits=True, state=state, snapshot=SNAPSHOT, from_start=True))
    assert found == Decision(Step.START, expected), "one that has failed goes on from its state"

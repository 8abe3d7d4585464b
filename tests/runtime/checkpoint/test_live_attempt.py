"""Which attempt runs, and what is said where none does."""

import threading

import pytest

from pystate.runtime.checkpoint.live_attempt import AttemptOverError, LiveAttempt
from tests.runtime.checkpoint.harness import JOB, FakeSlots


class Placement:
    """An engine's side that notes its end."""

    ended = False

    def end(self):
        self.ended = True


@pytest.fixture
def attempt():
    return LiveAttempt(threading.Condition(), JOB.job_id)


def test_who_asks_for_a_savepoint_between_attempts_is_told_what_the_job_does_and_when_to_ask_again(attempt):
    told = []

    def ask():
        with pytest.raises(AttemptOverError) as error:
            attempt.check_runs()
        told.append((error.value.message, error.value.hint))

    ask()
    attempt.begin(FakeSlots(), Placement(), print)
    attempt.check_runs()
    attempt.end(None, job_ends=False)
    ask()
    attempt.end(None, job_ends=True)
    ask()
    again = f"try again in a moment, or wait for it: pystate wait {JOB.job_id} --for running"
    assert told == [
        ("The job is starting: it can take no checkpoint or savepoint yet.", again),
        ("The job is restarting: it can take no checkpoint or savepoint yet.", again),
        ("The job is ending: it takes no checkpoint or savepoint any more.", None),
    ]


def test_an_attempt_is_ended_by_its_own_slots_only(attempt):
    old, new = FakeSlots(), FakeSlots()
    first, second = Placement(), Placement()
    attempt.begin(old, first, print)
    assert attempt.end(old, job_ends=False)
    assert first.ended
    attempt.begin(new, second, print)
    assert not attempt.end(old, job_ends=True)
    assert (attempt.runs, attempt.job_ends, second.ended) == (True, False, False)
    assert attempt.end(None, job_ends=True)
    assert (attempt.runs, attempt.job_ends, second.ended) == (False, True, True)

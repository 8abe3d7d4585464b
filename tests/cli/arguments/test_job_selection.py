from __future__ import annotations

from dataclasses import replace

import pytest

from pystate.common.errors import JobNotFoundError, JobTerminatedError, UsageError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_messages import JobDetails
from pystate_cli.arguments.job_selection import choose_job, find_job
from tests.rest_messages import message

A = "abcd" + "1" * 28
B = "abcd" + "2" * 28
C = "ffff" + "3" * 28


def job(jid: str, name: str = "job", state: str = "RUNNING", start: int = 0) -> JobDetails:
    end = start + 1000 if JobStatus(state).is_terminal else -1
    return message(JobDetails, {"jid": jid, "name": name, "state": state, "start-time": start, "end-time": end})


@pytest.mark.parametrize("text", ["ffff", "FFFF3", C[:31]])
def test_four_digits_are_enough(text):
    assert choose_job(text, [job(A), job(C, state="FAILED")]) == C


@pytest.mark.parametrize("text", [A, f"{A} ", f" {A.upper()}\n"])
def test_a_whole_id_needs_no_job_manager_and_may_have_blanks_around_it(text):
    assert find_job(None, text) == A


@pytest.mark.parametrize("text", ["fff", "", "job ", "JOB", "zzzz", "*"])
def test_what_can_mean_no_job_is_a_wrong_call(text):
    with pytest.raises(UsageError, match="Cannot parse JobID"):
        choose_job(text, [job(C)])


def test_digits_that_no_id_begins_with_are_an_unknown_job():
    with pytest.raises(JobNotFoundError, match='begins with "abcd"'):
        choose_job("abcd", [job(C)])


@pytest.mark.parametrize("state", ["RUNNING", "RESTARTING", "INITIALIZING", "CANCELLING"])
def test_what_has_not_ended_wins_over_what_has(state):
    jobs = [job(A, state="FINISHED"), job(B, state=state), job(C, state="CANCELED")]

    assert choose_job("job", jobs) == B


def test_the_only_ended_job_of_a_name_can_be_asked_about():
    assert choose_job("job", [job(A, state="FINISHED"), job(C, "other")]) == A


@pytest.mark.parametrize("text", ["job", "abcd"])
def test_of_several_that_have_ended_the_last_is_meant_and_told(text):
    told: list[str] = []
    ended = [job(B, state="FAILED", start=5_000), job(A, state="FINISHED")]

    assert choose_job(text, ended, tell=told.append) == B
    (line,) = told
    assert line.startswith(f'2 jobs "{text}" have ended. This is the last: {B} (FAILED, 0')


@pytest.mark.parametrize("text", ["job", "abcd"])
@pytest.mark.parametrize("changes", [False, True])
def test_nothing_is_told_where_nothing_was_chosen(text, changes):
    told: list[str] = []

    assert choose_job(text, [job(A)], changes=changes, tell=told.append) == A
    assert told == []


def test_the_one_that_ended_last_may_have_begun_first():
    early = replace(job(A, state="FINISHED"), end_time=9_000_000)

    assert choose_job("job", [early, job(B, state="FINISHED", start=5_000)]) == A


@pytest.mark.parametrize("changes", [False, True])
def test_several_that_run_are_ambiguous_and_what_has_ended_is_none_of_them(changes):
    with pytest.raises(UsageError, match="any of 2 jobs") as caught:
        choose_job("job", [job(A), job(B, state="RESTARTING"), job(C, state="FINISHED")], changes=changes)

    assert C not in caught.value.message


def test_who_only_looks_means_the_running_one_by_its_first_digits():
    assert choose_job("abcd", [job(A, state="FINISHED"), job(B)]) == B


def test_who_changes_a_job_gets_no_running_one_for_digits_that_an_ended_one_shares():
    with pytest.raises(UsageError, match="any of 2 jobs"):
        choose_job("abcd", [job(A, state="FINISHED"), job(B)], changes=True)

    assert choose_job("ABCD2", [job(A, state="FINISHED"), job(B)], changes=True) == B


def test_who_changes_a_job_gets_none_that_has_ended_by_its_name():
    with pytest.raises(JobTerminatedError) as caught:
        choose_job("job", [job(A, state="FINISHED"), job(B, state="CANCELED", start=5_000), job(C, "other")], changes=True)

    assert caught.value.message.startswith(f'No job "job" runs. The one that ended last is {B} (CANCELED, ')
    assert caught.value.hint == "pystate list -a"


def test_the_successor_of_a_rescaled_job_is_meant_by_whoever_changes_it():
    jobs = [job(A, state="FINISHED"), job(B, start=5_000)]

    assert choose_job("job", jobs, changes=True) == choose_job("job", jobs) == B


def test_a_name_that_looks_like_the_first_digits_of_another_job_is_ambiguous():
    for changes in (False, True):
        with pytest.raises(UsageError, match="any of 2 jobs"):
            choose_job("ffff", [job(A, "ffff", "FINISHED"), job(C)], changes=changes)

    assert choose_job("abcd", [job(A, "abcd")]) == A, "one job is not two because both its id and its name fit"


def test_the_list_of_candidates_is_short_and_begins_with_what_runs():
    jobs = [job(f"abcd{number:028x}", "x\n\x1b", "FINISHED", number) for number in range(12)] + [job(C, "x\n\x1b")]

    with pytest.raises(UsageError) as caught:
        choose_job("abcd", [*jobs, job(B, state="RUNNING")], changes=True)

    lines = caught.value.message.splitlines()
    assert lines[1] == f"  {B}  job  RUNNING"
    assert lines[2] == f"  {'abcd' + format(11, '028x')}  x ?  FINISHED"
    assert lines[-1] == "  and 3 more"

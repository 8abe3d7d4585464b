from __future__ import annotations

import pytest

from pystate.common.errors import JobNotFoundError, UsageError
from pystate_cli.job_selection import choose_job

A = "abcd" + "1" * 28
B = "abcd" + "2" * 28
C = "ffff" + "3" * 28


def job(jid: str, name: str = "job", state: str = "RUNNING", start: int = 0) -> dict[str, object]:
    return {"jid": jid, "name": name, "state": state, "start-time": start}


@pytest.mark.parametrize("text", ["ffff", "FFFF3", C[:31]])
def test_four_digits_are_enough(text):
    assert choose_job(text, [job(A), job(C, state="FAILED")]) == C


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


def test_several_ended_jobs_of_a_name_are_ambiguous():
    with pytest.raises(UsageError, match="any of 2 jobs"):
        choose_job("job", [job(A, state="FINISHED"), job(C, state="FAILED")])


def test_a_running_job_does_not_win_by_its_first_digits():
    with pytest.raises(UsageError, match="any of 2 jobs"):
        choose_job("abcd", [job(A, state="FINISHED"), job(B)])


def test_a_name_that_looks_like_the_first_digits_of_another_job_is_ambiguous():
    with pytest.raises(UsageError, match="any of 2 jobs"):
        choose_job("ffff", [job(A, "ffff"), job(C)])

    assert choose_job("abcd", [job(A, "abcd")]) == A, "one job is not two because both its id and its name fit"


def test_the_list_of_candidates_is_short_and_begins_with_what_runs():
    jobs = [job(f"abcd{number:028x}", "x\n\x1b", "FINISHED", number) for number in range(12)] + [job(C, "x\n\x1b")]

    with pytest.raises(UsageError) as caught:
        choose_job("abcd", [*jobs, job(B, state="RUNNING")])

    lines = caught.value.message.splitlines()
    assert lines[1] == f"  {B}  job  RUNNING"
    assert lines[2] == f"  {'abcd' + format(11, '028x')}  x ?  FINISHED"
    assert lines[-1] == "  and 3 more"

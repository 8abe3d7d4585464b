"""Whether there is a next attempt, and what the next driver knows of the failures so far."""

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import (
    JobExecutionError,
    RecordError,
    RestoreError,
    StateDeclarationError,
    StateError,
    UserFunctionError,
)
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.runtime.driver.failures.execution_failure_handler import ExecutionFailureHandler
from pystate.runtime.execution.late_start import StartTimeoutError
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms

TWICE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "7 ms",
}
LOST = JobExecutionError("A slot was lost.")


@pytest.fixture
def handler(tmp_path):
    def make(*, taken_over=False, saved_batch=lambda: None, embedded=False, **options):
        configuration = Configuration({**TWICE, **options})
        one = ExecutionFailureHandler(configuration, JobDirectory(tmp_path), saved_batch, alone=embedded)
        one.begin(taken_over=taken_over)
        return one

    return make


OFTEN = {"restart-strategy.fixed-delay.attempts": "9", "execution.checkpointing.interval": "1 s"}


def trace(line=12, name="ConnectionError"):
    return f'Traceback (most recent call last):\n  File "/jobs/job.py", line {line}, in open\n    ask()\n{name}: no\n'


def failures(one, *lines, ran=True, kind="ConnectionError"):
    """Let attempts fail at these lines, each with another text; return the delays."""
    delays = []
    for number, line in enumerate(lines):
        one.attempt_created()
        if ran:
            one.attempt_runs()
        delays.append(one.delay_ms(user_error(f"{kind}: <object at 0x{id(one) + number:x}>"), trace(line)))
    return delays


def user_error(message="ZeroDivisionError", subtask=0):
    return UserFunctionError(message, where=f"task count, subtask {subtask}")


def test_failures_are_counted_over_drivers(handler):
    assert handler().delay_ms(LOST) == 7
    second = handler(taken_over=True)
    assert second.delay_ms(LOST) == 7
    assert second.delay_ms(LOST) is None
    assert handler(taken_over=True).delay_ms(LOST) is None
    assert handler().delay_ms(LOST) == 7, "a new job counts anew"


def test_a_driver_with_other_rules_counts_anew(handler):
    first = handler()
    assert [first.delay_ms(LOST) for _ in range(3)] == [7, 7, None]
    other = handler(taken_over=True, **{"restart-strategy.fixed-delay.delay": "9 ms"})
    assert other.delay_ms(LOST) == 9


def test_an_error_that_comes_back_at_every_start_ends_the_job_and_is_not_counted(handler):
    one = handler()
    assert one.delay_ms(RestoreError("Nothing fits.")) is None
    assert not one.has_given_up  # the error itself says why
    assert [one.delay_ms(LOST) for _ in range(3)] == [7, 7, None]
    assert not one.has_given_up


def test_user_code_that_fails_twice_in_the_same_way_before_the_job_runs_ends_it(handler):
    one = handler()
    one.attempt_created()
    assert one.delay_ms(user_error(subtask=0)) == 7
    one.attempt_created()
    assert one.delay_ms(user_error(subtask=1)) is None


@pytest.mark.parametrize("between", ["it ran", "another error", "another message"])
def test_user_code_may_fail_in_the_same_way_if_something_else_came_between(handler, between):
    one = handler(**{"restart-strategy.fixed-delay.attempts": "9"})
    one.attempt_created()
    one.delay_ms(user_error())
    if between == "another error":
        one.delay_ms(LOST)
    if between == "another message":
        one.delay_ms(user_error("KeyError"))
    one.attempt_created()
    if between == "it ran":
        one.attempt_runs()
    assert one.delay_ms(user_error()) == 7


def test_how_a_job_ends_is_written_down_with_what_was_counted(handler, tmp_path):
    one = handler()
    one.delay_ms(LOST)
    one.job_ends(JobStatus.FINISHED)
    terms = RecoveryTerms.read(JobDirectory(tmp_path))
    assert terms.end_state is JobStatus.FINISHED
    assert [(after := terms.strategy.after_failure(0)).delay_ms, after.strategy.after_failure(0).delay_ms] == [7, None]


@pytest.mark.parametrize("ran", [True, False])
def test_a_job_without_a_checkpoint_gives_up_at_the_third_failure_at_one_line_whatever_the_texts(handler, ran):
    one = handler(**OFTEN)

    assert failures(one, 12, 12, 12, ran=ran) == [7, 7, None]
    assert one.has_given_up
    assert one.describe() == (
        'the job failed 3 times with ConnectionError at File "/jobs/job.py", line 12, in open, and it has never completed a '
        "checkpoint"
    )


def test_failures_of_other_lines_or_kinds_or_of_the_machines_are_other_failures(handler):
    one = handler(**OFTEN)

    assert failures(one, 12, 13, 12, 13) == [7, 7, 7, 7]
    assert one.delay_ms(LOST) == 7
    assert failures(one, 12, kind="KeyError") == [7]
    assert failures(one, 12) == [None]


def test_a_job_that_has_completed_a_checkpoint_goes_by_its_restart_strategy_alone(handler):
    completed = []
    one = handler(**OFTEN, saved_batch=lambda: completed[-1] if completed else None)
    failures(one, 12, 12)
    completed.append(1)

    assert failures(one, 12, 12, 12) == [7, 7, 7]


def test_without_checkpoints_only_attempts_that_never_ran_are_told_apart_by_line(handler):
    options = {"restart-strategy.fixed-delay.attempts": "9"}

    assert failures(handler(**options), 12, 12, 12, 12) == [7, 7, 7, 7]
    assert failures(handler(**options), 12, 12, 12, ran=False) == [7, 7, None]


def test_a_state_of_the_wrong_kind_ends_the_job_at_once(handler):
    one = handler(**OFTEN)

    assert one.delay_ms(StateDeclarationError("VALUE state was asked for.")) is None
    assert one.describe() == "this comes back at every start"


def test_misused_state_ends_a_job_that_fails_twice_in_the_same_way_before_it_runs(handler):
    one = handler(**OFTEN)
    one.attempt_created()
    assert one.delay_ms(StateError("There is no current key.", where="task count, subtask 0")) == 7
    one.attempt_created()
    assert one.delay_ms(StateError("There is no current key.", where="task count, subtask 1")) is None


@pytest.mark.parametrize("kind", [RecordError, StateError])
def test_data_of_the_wrong_type_that_comes_back_after_one_checkpoint_ends_the_job(handler, kind):
    completed = [7]
    one = handler(**OFTEN, saved_batch=lambda: completed[-1])

    def fails(text="1.5 is no int64"):
        one.attempt_created()
        one.attempt_runs()
        return one.delay_ms(kind(text, where="count, subtask 0"))

    assert [fails(), fails()] == [7, 7]
    completed.append(8)
    assert [fails(), fails("True is no int64"), fails(), fails()] == [7, 7, 7, None]
    assert one.describe() == "the job failed 3 times of the same data, and no checkpoint came past it"


NO_RESTARTS = {"restart-strategy.type": "none"}
LATE = StartTimeoutError("0 of 2 slots registered within 60 s.")
WORKER = JobExecutionError("The query failed: [STREAM_FAILED]")
WORKERS_TRACE = "Caused by: org.apache.spark.SparkException: Python worker failed to connect back."


@pytest.mark.parametrize(("error", "trace"), [(LATE, ""), (WORKER, WORKERS_TRACE)])
def test_a_start_for_which_the_machine_had_no_time_is_tried_once_more_without_restarts(handler, error, trace):
    one = handler(embedded=True, **NO_RESTARTS)
    one.attempt_created()
    assert [one.delay_ms(error, trace) for _ in range(2)] == [0, None]


@pytest.mark.parametrize(("has_begun", "delay"), [(True, None), (False, 0)])
def test_once_it_has_done_something_a_failure_is_the_jobs(handler, has_begun, delay):
    one = handler(embedded=True, **NO_RESTARTS)
    one.attempt_created()
    one.attempt_runs()
    one.attempt_over(has_begun=has_begun)
    assert one.delay_ms(WORKER, WORKERS_TRACE) == delay


def test_other_failures_of_a_start_and_starts_that_a_job_manager_watches_are_as_the_strategy_says(handler):
    one = handler(embedded=True, **NO_RESTARTS)
    one.attempt_created()
    assert one.delay_ms(WORKER) is None
    assert handler(**NO_RESTARTS).delay_ms(LATE) is None

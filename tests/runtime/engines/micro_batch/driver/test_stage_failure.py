"""What is said of an epoch whose Spark job fails in a Python worker."""

import pytest

from pystate.common.errors import JobExecutionError, RecordError, UserFunctionError
from pystate.core.api.transformations import SourceTransformation
from pystate.runtime.engines.micro_batch.driver.epoch_failures import stage_failure
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan

WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/jobs/job.py", line 4, in share
    return 1 / value
{last}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:789)
"""
REFUSED = """pystate.common.errors.RecordError: 'a' is no int64: an integer is required
  at: to counts
  try: declare the right output_type or key_type"""


def test_an_exception_of_the_author_is_said_in_its_own_words():
    error = stage_failure(RuntimeError(WORKER.format(last="ZeroDivisionError: division by zero")))

    assert type(error) is UserFunctionError
    assert error.message == "ZeroDivisionError: division by zero"


def test_data_of_the_wrong_type_keeps_its_place_and_hint():
    error = stage_failure(RuntimeError(WORKER.format(last=REFUSED)))

    assert type(error) is RecordError
    assert error.message == "'a' is no int64: an integer is required"
    assert (error.where, error.hint) == ("to counts", "declare the right output_type or key_type")


@pytest.mark.parametrize("last", ["KeyError", "pystate.common.errors.RecordErrors: no", "ValueError: RecordError: no"])
def test_what_only_looks_so_is_the_authors(last):
    assert type(stage_failure(RuntimeError(WORKER.format(last=last)))) is UserFunctionError


JVM = """An error occurred while calling o230.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2900)
{causes}"""


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        ("", "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times"),
        (
            "Caused by: a.B: wrapped\n\tat a.b\nCaused by: java.io.IOException: No space left on device\n\tat c.d",
            "java.io.IOException: No space left on device",
        ),
    ],
)
def test_of_an_error_of_the_jvm_its_cause_is_said_and_not_the_call(causes, said):
    assert stage_failure(RuntimeError(JVM.format(causes=causes))).message == f"The epoch's Spark job failed: {said}"


def test_what_spark_says_of_data_names_the_sources():
    said = ": org.apache.spark.SparkRuntimeException: [MALFORMED_CSV_RECORD] Malformed CSV record: a,b SQLSTATE: KD000"
    error = RuntimeError(f"An error occurred while calling o1.save.\n{said}\n\tat a.b\n")
    words, orders = (SourcePlan(SourceTransformation(name=name), uid) for name, uid in (("Words", "w"), ("Orders", "o")))

    failure = stage_failure(error, JobPlan([words], 1))
    assert failure.message == "The epoch's Spark job failed: [MALFORMED_CSV_RECORD] Malformed CSV record: a,b"
    assert failure.where == "source Words (uid w)"
    both = JobPlan([words, orders], 1)
    assert stage_failure(error, both).where == "one of the sources Words (uid w), Orders (uid o)"
    assert stage_failure(RuntimeError(JVM.format(causes="")), both).where is None


def test_without_a_python_worker_it_is_sparks():
    assert type(stage_failure(RuntimeError("Job aborted due to stage failure"))) is JobExecutionError

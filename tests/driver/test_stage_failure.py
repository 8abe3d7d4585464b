"""What is said of an epoch whose Spark job fails in a Python worker."""

import pytest

from pystate.common.errors import JobExecutionError, RecordError, UserFunctionError
from pystate.driver.execution_attempt import stage_failure

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


def test_without_a_python_worker_it_is_sparks():
    assert type(stage_failure(RuntimeError("Job aborted due to stage failure"))) is JobExecutionError

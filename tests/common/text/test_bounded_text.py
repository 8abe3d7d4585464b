from __future__ import annotations

from pystate.common.text.bounded_text import MAX_MESSAGE, bounded_text, first_line


def test_a_short_text_stays_and_a_long_one_loses_its_middle():
    assert bounded_text("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE
    text = "beginning" + "x" * 1_000_000 + "end"
    short = bounded_text(text)
    assert len(short) < MAX_MESSAGE + 60
    assert short.startswith("beginning")
    assert short.endswith("end")
    assert f"\n... {len(text) - MAX_MESSAGE} characters are left out ...\n" in short
    assert bounded_text("abcdefgh", 4, 1).splitlines() == ["a", "... 4 characters are left out ...", "fgh"]


OF_JAVA = """An error occurred while calling o61.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2900)
Caused by: {cause}
\tat java.base/java.net.Socket.connect(Socket.java:1)
"""
IN_PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/jobs/job.py", line 4, in share
    return 1 / value
ZeroDivisionError: division by zero
"""


def test_of_an_error_of_java_the_cause_is_said_and_not_the_call():
    assert (
        first_line(RuntimeError(OF_JAVA.format(cause="java.net.ConnectException: refused")))
        == "java.net.ConnectException: refused"
    )
    assert first_line(RuntimeError(OF_JAVA.format(cause=IN_PYTHON))) == "ZeroDivisionError: division by zero"
    assert first_line(RuntimeError("An error occurred while calling o61.save")) == "An error occurred while calling o61.save"


def test_of_any_other_error_the_first_line_or_its_kind_is_said():
    assert first_line(ValueError("\nno\nCaused by: a\n")) == "no"
    assert first_line(ValueError(" ")) == "ValueError"

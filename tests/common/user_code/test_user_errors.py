from __future__ import annotations

import pytest

from pystate.common.text.bounded_text import MAX_MESSAGE, MAX_TRACE, text_of
from pystate.common.text.java_errors import java_cause, java_hint
from pystate.common.user_code.user_errors import error_sentence, user_failure
from pystate.common.user_code.user_frames import user_stack_trace

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/jobs/job.py", line 4, in price
    return float(text)
ValueError: could not convert string to float: '12,50'

"""
READING = """An error occurred while calling o61.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.json. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:856)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.X] Try the mode PERMISSIVE. SQLSTATE: 22023
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.malformed(QueryExecutionErrors.scala:1)
Caused by: com.fasterxml.jackson.core.JsonParseException: Unexpected character
\tat com.fasterxml.jackson.core.JsonParser._constructError(JsonParser.java:1)
"""


class Unsayable(Exception):
    def __str__(self):
        message = "no"
        raise ValueError(message)


class OfSpark(Exception):
    pass


OfSpark.__module__ = "pyspark.errors.exceptions.captured"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("first\nsecond"), "RuntimeError: first\nsecond"),
        (RuntimeError(), "RuntimeError (no message)"),
        (SystemExit(), "SystemExit (no message)"),
        (SystemExit(3), "SystemExit: 3"),
        (RuntimeError("\x1b[31mred\x1b[2J\r\0\a\t\x9b2J\n"), "RuntimeError: ?[31mred?[2J???\t?2J\n"),
        (Unsayable(), "Unsayable: its message can't be shown, since __str__ raised ValueError"),
        (
            OfSpark("[NO_COLUMN] No column. SQLSTATE: 42703;\n'Project ['a]\n+- b"),
            "OfSpark: [NO_COLUMN] No column. SQLSTATE: 42703",
        ),
        (OfSpark(WORKER), "ValueError: could not convert string to float: '12,50'"),
    ],
)
def test_an_exception_is_said_by_its_kind_and_its_words(error, said):
    assert error_sentence(error) == said


def test_of_java_what_spark_says_is_told_and_what_caused_it():
    assert java_cause(READING) == (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.json."
        " Cause: [MALFORMED_RECORD_IN_PARSING.X] Try the mode PERMISSIVE."
        " Cause: com.fasterxml.jackson.core.JsonParseException: Unexpected character"
    )


def test_what_has_an_answer_gets_it():
    failure = user_failure(RuntimeError("java.sql.SQLException: No suitable driver"), "sink db")
    assert failure.hint == java_hint("No suitable driver")
    assert "spark.jars" in failure.hint
    assert user_failure(RuntimeError("no"), "sink db").hint is None
    assert "can't end its job" in user_failure(SystemExit(1), "sink db").hint


def test_long_and_unsayable_ones_are_bounded():
    try:
        raise RuntimeError("x" * 5_000_000)
    except RuntimeError as error:
        assert len(error_sentence(error)) < MAX_MESSAGE + 60
        assert len(user_stack_trace(error)) < MAX_TRACE + 60
    assert "Unsayable" in user_stack_trace(Unsayable())
    assert text_of(Unsayable()) == "its message can't be shown, since __str__ raised ValueError"


def test_a_name_that_is_not_there_is_told_with_when_functions_are_taken():
    def of(error):
        return user_failure(error, "map").hint or ""

    assert "define this one before" in of(NameError("name 'helper' is not defined"))
    assert "define this one before" not in of(UnboundLocalError("x"))

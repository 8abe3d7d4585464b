"""Where our row formats answer otherwise than Flink's on purpose: which questions, and what we answer. All else is equal."""

from __future__ import annotations

import re
from dataclasses import dataclass

REFUSED = re.compile(r"error|none|\((null|null, null)\)")
"""An error; with parse errors ignored, no row, or None for the field."""


@dataclass(frozen=True)
class Difference:
    """A kind of questions that we answer otherwise.

    Attributes:
        topic: The words that its row in the table of docs/types.md begins with.
        questions: Which questions these are.
        here: What we answer.
    """

    topic: str
    questions: re.Pattern[str]
    here: re.Pattern[str] = REFUSED


def _of(topic: str, questions: str, here: str | None = None) -> Difference:
    return Difference(topic, re.compile(questions), REFUSED if here is None else re.compile(here))


DIFFERENCES = [
    _of("a number in a STRING", r"json (STRING|MAP) .*\d[.eE]-?\d.*", r"\(.*\d[.eE]-?\d.*\)"),
    _of("half of a surrogate pair", r'json (STRING|CHAR) "\\ud800"|json text .*xed.*'),
    _of("bytes that are no UTF-8", r"json text .*xc0.*"),
    _of("neither `true` nor `false`", r"(json|csv) BOOLEAN .*"),
    _of("a number with a fraction", r"json (INT|LONG) (5\.5|1\.10|1e-400)"),
    _of("digits of other scripts", r'json \w+ "\u0663"|json (FLOAT|DOUBLE) "5d"'),
    _of("a CHAR", r'json CHAR (-?\d+|"")'),
    _of("a CHAR", r'json CHAR "\\ud83d\\ude00"', r".*ud83d.ude00.*"),
    _of("nanoseconds", r"(json|csv) SQL_TIMESTAMP .*\.123456789.*|json INSTANT 1\.0000000001"),
    _of("hour 24", r'json \w+ "(2024-02-29T)?24:00:00Z"'),
    _of("years", r'json \w+ "(0000|\+12024)-.*"'),
    _of("what INSTANT is no time for", r'json INSTANT "(20240229)?"'),
    _of("no such day", r"csv SQL_TIMESTAMP 2024-02-30.*|csv SQL_DATE 2024-2-9"),
    _of("more times", r"(json|csv) (SQL_TIME|SQL_TIMESTAMP|INSTANT) .*\d{2}:\d{2}.*", r"\(.*\d{2}:\d{2}.*\)"),
    _of("what is no object, no text", r"json (bytes|MAP) (\[1\]|5)( \w+)?"),
    _of("a key", r'json MAP \{"x":"a"\} lax'),
    _of("more than one value", r"json message '\{\"f\":1\}.+'( lax)?"),
    _of("more columns", r"csv 1 'a?,'.*"),
    _of("more than one line", r"csv \d 'a\\nb'.*"),
    _of("a space after a quote", r"csv 2 '\"a\" ,b'.*"),
    _of("a comment", r"csv 1 '(#a|\\n| a )' comments|csv 2 '#a' comments", r"none|\(''\)|\(' a '\)"),
    _of("an empty element", r"csv ARRAY 1;;2", r"\(\[1, null, 2\]\)"),
    _of("an empty line", r"write csv (STRING ''|STRING None|bytes ''|ARRAY \[\]).*", r'""\n'),
]

from __future__ import annotations

from typing import Any

from pystate.runtime.rest.job_detail_messages import RootExceptionInfo
from pystate_cli.views import failure_list
from pystate_cli.views.failure_list import FailureRow
from tests.cli.views.test_views import NOW, rendered
from tests.rest_messages import message

JOB_ID = "6077eb43c7a5ff1950bf7e60379598c1"


def failure(attempt: int, said: str, **changes: Any) -> FailureRow:
    ours = {"class": "PystateError", "message": said, "where": None, "hint": "see /log", "attempt": attempt, **changes}
    plain = {"exceptionName": ours["class"], "stacktrace": f"Trace\n  {said}", "timestamp": NOW - 1000, "pystate": ours}
    return FailureRow.of(message(RootExceptionInfo, plain), JOB_ID)


def on_a_terminal(rows: list[FailureRow], width: int) -> str:
    return "".join(rendered(line, width) for line in failure_list.failure_lines(rows, width, NOW))


def test_long_messages_go_on_in_the_next_line():
    rows = [failure(2, "The driver process " * 8), failure(1, "short", where="count, subtask 1")]
    for width in (40, 60, 80, 100, 160):
        text = on_a_terminal(rows, width)
        assert max(map(len, text.splitlines())) <= width
        assert text.count("driver") == 8
        assert "at: count, subtask 1" in text


def test_a_path_stays_whole_on_a_narrow_terminal():
    path = "file:/data/" + "/".join(f"folder-{n}" for n in range(12))

    lines = failure_list.failure_lines([failure(1, f"The file {path} can't be read.")], 60, NOW)
    assert f"  {path}" in [line.plain for line in lines]


def test_hints_stand_once_and_the_job_itself_is_no_place():
    rows = [failure(2, "a", where=f"job {JOB_ID}"), failure(1, "b")]
    assert failure_list.hint_lines(rows) == ["try: see /log"]
    assert "at:" not in on_a_terminal(rows, 80)


def test_a_message_that_would_fill_the_screen_is_cut_and_the_trace_has_more():
    for told in ("a line\n" * 500, "x" * 5000):
        row = failure(1, told)
        for shown in (row.message, *failure_list.FAILURES.plain([row])):
            assert len(shown) < 800
        assert row.message.endswith(" ... (-v shows more)")
        assert len("".join(failure_list.trace_lines(row, NOW))) > 3000
    assert failure(1, "short").message == "short"


def test_a_failure_can_not_steer_the_terminal():
    row = failure(1, "a\x1b[2Jb")
    text = on_a_terminal([row], 80)
    for shown in (text, *failure_list.FAILURES.plain([row]), *failure_list.trace_lines(row, NOW)):
        assert "\x1b" not in shown
    assert "a?[2Jb" in text

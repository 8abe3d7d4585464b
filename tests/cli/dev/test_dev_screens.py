"""What `pystate dev` shows."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pystate.common.errors import PystateError
from pystate.common.program_finding import ProgramFinding, Severity
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate_cli.console.live_region import LiveRegion
from pystate_cli.sampling.run_sample import RunSample
from pystate_cli.views.dev_view import DevNews, dev_view, news_lines
from tests.cli.views.test_run_view import progress
from tests.cli.views.test_views import STATISTICS
from tests.rest_messages import message

NOW = 1_700_000_000_000


def shown(news: DevNews, output: tuple[str, ...] = (), *, width: int = 100, height: int = 30, sample=None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(dev_view(news, sample, output, width, height, unicode=True, now=NOW))
    return console.export_text().splitlines()


def finding(number: int, severity: Severity = Severity.ERROR) -> ProgramFinding:
    error = PystateError(f"problem {number}", where=f"/project/job.py, line {number}")
    return ProgramFinding.of(error, "state", severity=severity)


def test_the_screen_tells_the_version_when_it_was_saved_and_how_long_it_took():
    news = DevNews("job.py", version=3, saved=NOW / 1000 - 5, took=2.44, parts="check 0.4 s, start 1.5 s")
    assert shown(news)[0] == "dev job.py  version 3  saved 5.0 s ago  ran after 2.4 s (check 0.4 s, start 1.5 s)"


def test_the_screen_has_figures_findings_the_error_and_the_output():
    news = DevNews(
        "job.py",
        version=1,
        doing="checking the new code",
        findings=(finding(7, Severity.WARNING), finding(3)),
        failure=("ZeroDivisionError: division by zero", '  at: File "/project/job.py", line 7, in f'),
        told=("Version 2 does not run: 1 error.", "The job goes on with version 1."),
    )
    lines = shown(news, ("1> a", "1> b"), sample=RunSample("a" * 32, progress(), 120.0, 60.0, None))
    assert lines[1] == "checking the new code"
    assert any("in 120 rows/s" in line and "out 60 rows/s" in line for line in lines)
    place = lines.index("error: problem 3")
    assert lines[place + 1] == "  at: /project/job.py, line 3"
    assert lines.index("warning: problem 7") > place
    assert '  at: File "/project/job.py", line 7, in f' in lines
    assert lines[-3:] == ["1> a", "1> b", "(q or Ctrl-C ends it)"]


def test_the_output_gets_the_lines_that_are_left():
    output = tuple(f"line {number}" for number in range(100))
    lines = shown(DevNews("job.py"), output, height=20)
    assert len(lines) == 20
    assert lines[-2] == "line 99"
    many = DevNews("job.py", findings=tuple(finding(number) for number in range(1, 9)))
    lines = shown(many, output, height=12)
    assert [line for line in lines if line.startswith("line ")] == ["line 97", "line 98", "line 99"]
    assert "and 3 more: pystate check job.py" in lines


LONG = "The savepoint of the session before does not fit the new code, and nothing can be told of why that is so."


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_cuts_no_sentence(width):
    news = DevNews(
        "a_program_with_a_long_name.py",
        version=12,
        doing=LONG,
        saved=NOW / 1000 - 5,
        took=2.44,
        parts="savepoint 0.2 s, check 0.4 s, stop 0.3 s, start 1.5 s",
        findings=(ProgramFinding.of(PystateError(LONG, where="/a/long/folder/and/another/one/job.py", hint=LONG), "state"),),
        failure=(LONG,),
        told=(LONG,),
    )
    statistics = message(CheckpointingStatistics, STATISTICS)
    sample = RunSample("a" * 32, progress(), 120.0, 60.0, statistics)
    stream = io.StringIO()
    screen = Console(file=stream, width=width, height=200, force_terminal=True, color_system=None)
    region = LiveRegion(stream, screen, keep=True)
    printed = "0123456789" * 9
    region.draw(dev_view(news, sample, (printed,), width, 200, unicode=True, now=NOW))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in stream.getvalue()
    words = " ".join(" ".join(lines).split())
    assert words.count(LONG) == 5
    assert "ran after 2.4 s (savepoint 0.2 s, check 0.4 s, stop 0.3 s, start 1.5 s)" in words
    assert "9 triggered: 7 completed, 1 in progress, 1 failed, restored 1 time" in words
    assert "a" * 32 in words
    assert printed in "".join(lines)
    assert lines[-1] == "(q or Ctrl-C ends it)"


def test_a_pipe_gets_each_thing_once():
    before = DevNews("job.py", findings=(finding(3),), told=("one",))
    now = DevNews("job.py", version=2, findings=(finding(4),), failure=("it failed",), told=("one", "two"))
    assert list(news_lines(before, now)) == ["/project/job.py:4: error: problem 4", "it failed", "two"]
    assert list(news_lines(now, now)) == []

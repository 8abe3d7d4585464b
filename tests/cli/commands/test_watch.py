"""`pystate watch`: its view, what a pipe gets, and a job manager that goes away meanwhile."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.sampling.job_history import JobHistory, JobSample, OperatorFigures
from pystate_cli.tables.bars import magnitude, progress, sparkline
from pystate_cli.views.watch_lines import LOOKS
from pystate_cli.views.watch_view import watch_view
from tests.cli.terminal import TerminalCommand
from tests.cli.test_terminal import write_checkpoints
from tests.cli.views.test_views import HISTORY, NOW, STATISTICS, rendered
from tests.ops.jobmanager.harness import ManagerProcess, eventually
from tests.rest_messages import message
from tests.waiting import LONGEST_S

JOB = "6077eb43c7a5ff1950bf7e60379598c1"


def a_look(**changes: Any) -> JobSample:
    known = {"name": "word count", "state": "RUNNING", "attempt": 0, "start-time": NOW - 83_000, "end-time": -1}
    known |= {
        "epoch": 1842,
        "records-in": 1_234_567,
        "records-out": 99,
        "epoch-running": 340,
        "backlog": 500,
        "restore": None,
    }
    operators = (
        OperatorFigures("Source: log files -> parse", 2, "RUNNING", 12_345.0, 12_000.0, 1, 1),
        OperatorFigures("count words -> JSON files", 4, "RUNNING", 12_000.0, 830.0, 1, 1),
    )
    rates = tuple(1000 * (1 + math.sin(place / 3)) for place in range(60))
    epochs = tuple(100 + place for place in range(60))
    statistics = message(CheckpointingStatistics, {**STATISTICS, "history": HISTORY})
    progress = message(JobProgress, {**known, **changes})
    return JobSample(JOB, progress, statistics, operators, rates, rates, (900.0, 500.0), epochs, 128, 0.72)


def view(look: JobSample, width: int = 80, height: int = 24, encoding: str = "utf-8") -> str:
    return rendered(watch_view(look, width, height, unicode=encoding == "utf-8", now=NOW), width, encoding)


@pytest.mark.parametrize("width", range(60, 131))
def test_no_line_of_the_checkpoints_is_cut(width):
    lines = view(a_look(), width=width).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("ID "))

    assert not [line for line in lines[first:] if line.endswith("…")]
    assert max(map(len, lines[first:])) <= width


def test_the_view_at_80_columns():
    lines = view(a_look()).splitlines()

    assert lines[:2] == [
        f"word count                                      {JOB}",
        "● RUNNING   uptime 1 m 23 s   epoch 1,842   parallelism 2, 4 (max 128)",
    ]
    assert re.fullmatch(r"rows in +1,729 rows/s  [▁-▇]{27}  1,234,567 in all", lines[3])
    assert re.fullmatch(r"epoch time +159 ms  [▁-▇]{27}  p50 130 ms, max 159 ms", lines[5])
    assert re.fullmatch(r"backlog +500 rows +▇▄  shrinking", lines[6])
    assert re.fullmatch(r"busy +72%  ━{19}╌{8}  epoch since 340 ms", lines[7])
    assert lines[9:12] == [
        "operators",
        "Source: log files -> parse  ×2  12,345 rows/s in  12,000 rows/s out  ━━━━━━━━",
        "count words -> JSON files   ×4  12,000 rows/s in     830 rows/s out  ━━━━━━━━",
    ]
    assert lines[13] == "checkpoints  9 triggered: 7 completed, 1 in progress, 1 failed, restored 1 time"
    assert lines[14].split() == ["ID", "kind", "ack", "took", "size", "written", "align"]
    assert lines[15].split()[:6] == ["14", "…", "chk", "2/6", "━╌╌╌╌", "11.0"]
    assert lines[16].endswith("118 MB ━━━━━  12 ms ━━━━━")


@pytest.mark.parametrize(
    ("watermark", "shown"),
    [
        (-(1 << 63), "none yet"),
        (NOW - 3_200, r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, 3\.2 s behind"),
        (NOW + 60_000, r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, 1 m 00 s ahead"),
        (1 << 60, "1152921504606846976 ms, .* ahead"),
        ((1 << 63) - 1, "at its end"),
    ],
)
def test_event_time_is_shown_with_how_far_it_is_after_and_where(watermark, shown):
    task = "count words -> JSON files"
    lines = view(a_look(**{"watermark": watermark, "watermark-task": task})).splitlines()
    assert re.fullmatch(rf"watermark +{shown}  in count words.*", lines[7])
    assert "watermark" not in view(a_look())


def test_a_look_of_a_job_with_event_time_in_a_pipe_and_as_json_has_flinks_number(manager, pystate):
    job = manager.submit("--epochs", "20", "--event-time", str(-(1 << 63)))
    manager.wait_for(job, "RUNNING")
    answer = json.loads(pystate("watch", job, "--json").out)
    assert answer["progress"]["watermark"] == -(1 << 63)
    assert answer["progress"]["watermarkTask"] == "count -> print"
    manager.request("PATCH", f"/jobs/{job}")
    look = a_look(watermark=-(1 << 63))
    assert LOOKS.plain([look])[1].split()[-1] == "-9223372036854775808"


def test_a_failed_checkpoint_does_not_hide_how_long_the_others_took():
    lines = view(a_look(), 160).splitlines()

    bars = {line.split()[0]: line for line in lines if re.match(r"1[0-4] ", line)}
    assert "11.0 s ━━━━━━━━━━━━━━━━━━ " in bars["14"]
    assert "10 m 00 s ━━━━━━━━━━━━━━━━━━ " in bars["11"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [40, 60, 79, 80, 120, 160, 250])
def test_no_line_is_wider_than_the_terminal(width, encoding):
    text = view(a_look(name="a job with a very long name that fits nowhere " * 3), width, encoding=encoding)

    assert max(map(len, text.splitlines())) <= width
    assert text.isascii() or encoding == "utf-8"


@pytest.mark.parametrize("height", [6, 10, 14, 18, 24, 50])
def test_what_does_not_fit_is_left_out_from_below(height):
    lines = view(a_look(), height=height).splitlines()

    assert len(lines) <= height
    assert lines[0].startswith("word count")
    if height >= 24:
        assert sum(bool(re.match(r"1[0-4] ", line)) for line in lines) >= 3


def test_a_job_of_which_nothing_is_known():
    known = dict.fromkeys(("epoch", "records-in", "records-out", "epoch-running", "backlog", "restore"))
    look = a_look(**known, state="INITIALIZING")
    look = JobSample(JOB, look.progress, message(CheckpointingStatistics, {}), (), (None,), (None,), (None,), (), -1, None)

    lines = view(look).splitlines()

    assert lines[1] == "● INITIALIZING   uptime 1 m 23 s   epoch -"
    assert lines[3].split() == ["rows", "in", "-", "rows/s", "-", "in", "all"]
    assert lines[5].endswith("no epoch has ended yet")
    assert len(lines) == 8


@pytest.mark.parametrize("width", [80, 60])
def test_a_job_without_epochs(width):
    known: Any = {"engine": "real-time", "epoch": None}
    look = a_look(**known, **{"epoch-durations": [], "epoch-running": None})
    text = view(replace(look, epochs=()), width)

    assert "epoch" not in text
    assert "● RUNNING   uptime 1 m 23 s   real-time engine" in text
    assert re.search(r"^busy +72%  ━+╌+ *$", text, re.MULTILINE)


def test_a_restore_shows_how_far_it_is():
    look = a_look(restore={"checkpoint-id": 14, "bytes": 1 << 30, "total": 4 << 30})

    assert re.search(r"^restore +checkpoint 14  ━{8}╌{25,}  1.00 GB of 4.00 GB$", view(look), re.MULTILINE)


@pytest.mark.parametrize(
    ("values", "unicode", "line"),
    [
        ((0, 1, 2, 3), True, "▁▃▅▇"),
        ((0, 0), True, "  ▁▁"),
        ((None, 5, None), True, "  ▇ "),
        ((9, 0, 1, 2, 3), True, "▁▃▅▇"),
        ((0, 3), False, "  _#"),
        ((), True, "    "),
    ],
)
def test_sparklines(values, unicode, line):
    assert sparkline(values, 4, unicode=unicode) == line


def test_bars():
    assert progress(1, 4, 8, unicode=True) == ("━━", "╌╌╌╌╌╌")
    assert progress(1, 1000, 8, unicode=True) == ("━", "╌╌╌╌╌╌╌")
    assert progress(9, 4, 4, unicode=False) == ("####", "")
    assert progress(0, 0, 4, unicode=False) == ("", "....")
    assert magnitude(5, 10, 8, unicode=True) == "━━━━"
    assert magnitude(1, 1000, 8, unicode=True) == "╸"
    assert magnitude(None, 10, 8, unicode=True) == magnitude(3, 0, 8, unicode=True) == ""
    assert magnitude(5, 10, 8, unicode=False) == "####"


def test_rates_are_taken_from_look_to_look():
    class Client:
        def __init__(self) -> None:
            self.count = 0

        def get(self, path: str, kind: Any) -> Any:
            return message(kind, self.answer(path))

        def answer(self, path: str) -> Any:
            if path.endswith("/progress"):
                known = {"name": "x", "state": "RUNNING", "start-time": 0, "end-time": -1, "epoch": 1}
                return {**known, "records-in": self.count, "records-out": 0, "epoch-running": None, "backlog": 7}
            if path.endswith("/checkpoints"):
                return STATISTICS
            vertex = {"id": "a", "name": "count", "parallelism": 2, "status": "RUNNING"}
            metrics = {"read-records": self.count, "read-records-complete": True, "write-records": 0}
            return {"vertices": [{**vertex, "metrics": metrics}], "maxParallelism": 128}

    client: Any = Client()
    history = JobHistory(JOB)
    history.look(client, 10.0)
    client.count = 300
    look = history.look(client, 12.0)

    assert look.rate_in == (None, 150.0)
    assert look.operators[0].rate_in == 150.0
    assert look.operators[0].rate_out is None, "a figure that is not complete is not known"
    assert look.backlog == (7, 7)
    assert look.busy == 0.0


def test_a_pipe_gets_a_line_per_look_until_the_job_ends(manager, pystate):
    job = manager.submit("--epochs", "20", "--finish", "1.5")
    manager.wait_for(job, "RUNNING")

    code, out, err = pystate("watch", job, "-n", "0.2")

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == [
        "time", "state", "attempt", "epoch", "epoch_ms", "rows_in_s", "rows_out_s", "backlog", "checkpoint",
        "watermark",
    ]  # fmt: skip
    assert len(lines) > 3
    assert {line.split()[1] for line in lines[1:-1]} == {"RUNNING"}
    assert lines[-1].split()[1] == "FINISHED"


def test_one_look_as_json(manager, running, pystate):
    write_checkpoints(manager, running, 1, 2)

    answer = json.loads(pystate("watch", running, "--json").out)

    assert answer["jobId"] == running
    assert answer["progress"]["state"] == "RUNNING"
    assert answer["operators"][0]["name"] == "count -> print"
    assert answer["checkpoints"]["counts"]["completed"] == 2


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 40), (40, 12)])
def test_a_person_watches_and_quits(manager, columns, rows):
    job = manager.submit("--name", "word count", "--epochs", "20")
    manager.wait_for(job, "RUNNING")
    write_checkpoints(manager, job, 1, 2)
    command = TerminalCommand("watch", job, "-n", "0.2", columns=columns, rows=rows)
    try:
        command.wait_for(lambda text: re.search(r"rows in +[\d,]+ rows/s", text) and "(q: quit)" in text)
        command.press(b"q")
        assert command.end() == 0
        assert command.is_restored
        assert all(len(line) <= columns for line in command.screen.text.splitlines())
        assert "● RUNNING" in command.screen.text
    finally:
        command.close()


def test_a_job_manager_that_comes_back_is_found_again(own_home):
    served = ManagerProcess(own_home).start()
    try:
        job = served.submit("--epochs", "20")
        served.wait_for(job, "RUNNING")
        command = [sys.executable, "-m", "pystate_cli", "watch", job, "-n", "0.2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("time")
        served.kill()
        eventually(lambda: process.stdout.readline().startswith("# no answer for "))
        served.start()
        eventually(lambda: " RUNNING " in process.stdout.readline())
        served.request("PATCH", f"/jobs/{job}")
        assert " CANCELED " in process.communicate(timeout=LONGEST_S)[0].splitlines()[-1]
        assert process.returncode == 0
    finally:
        served.stop()


def test_no_job_manager_at_the_start_is_an_error(pystate):
    code, out, err = pystate("watch", "a" * 32)

    assert (code, out) == (1, "")
    assert err.startswith("error: No job manager is running for this home")


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}])
def test_a_terminal_without_colours_or_without_unicode(manager, variables):
    job = manager.submit("--epochs", "20", "--name", "wörter")
    manager.wait_for(job, "RUNNING")
    command = TerminalCommand("watch", job, "-n", "0.2", environment=variables)
    try:
        command.wait_for(lambda text: "(q: quit)" in text and "rows in" in text)
        command.press(b"q")
        assert command.end() == 0
    finally:
        command.close()
    seen = "".join(command.raw)
    if "NO_COLOR" in variables:
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", seen)
    else:
        assert seen.isascii()

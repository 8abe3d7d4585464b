"""`pystate metrics`."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace

import pytest

from pystate.common.files.home import read_json
from pystate.common.job_status import JobStatus
from pystate.common.text.figures import format_moment
from pystate.runtime.rest.metric_messages import JobMetrics
from pystate_cli.views.metric_list import METRICS, SUBTASKS, MetricRow, head_line, matching, measured_subtasks, subtask_table
from tests.core.metrics.metrics_answer import WATERMARKS
from tests.runtime.checkpoint.stats.statistics import Statistics


def row(name="seen", value=1, *, task="count", operator="count", subtask=0, unit=None):
    return MetricRow(task, operator, subtask, name, unit, value)


def text_of(renderable, width):
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=width, highlight=False).print(renderable)
    return out.getvalue()


def test_a_pipe_gets_a_line_for_every_metric(manager, running, pystate):
    Statistics().run(1).write(manager.home.job(running).checkpoints)
    code, out, err = pystate("metrics", running)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["subtask", "value", "unit", "name"]
    assert "-        110                     ms             job : lastCheckpointDuration" in lines
    assert "1        101                     records        count -> print : numRecordsIn" in lines
    assert (
        '0        7                       -              count -> print / Process: count : words.lang.e"n\\ .seen' in lines
    )


def test_json_has_what_was_asked_for(running, pystate):
    code, out, _ = pystate("metrics", running, "--json", "--filter", "numRecords*")
    answer = json.loads(out)
    assert code == 0
    assert (answer["state"], answer["up"]) == ("RUNNING", True)
    assert {entry["name"] for entry in answer["metrics"]} == {"numRecordsIn", "numRecordsInPerSecond", "numRecordsOut"}


def test_a_filter_that_fits_nothing_is_told(running, pystate):
    code, out, err = pystate("metrics", running, "--filter", "nothing*")
    assert (code, out.split()) == (0, ["subtask", "value", "unit", "name"])
    assert err == "No metric of the job matches 'nothing*'.\n"


def test_a_driver_that_hangs_is_told_beside_what_the_files_say(manager, running, pystate):
    process = read_json(manager.home.job(running).driver)["pid"]
    os.kill(process, signal.SIGSTOP)
    try:
        code, out, err = pystate("metrics", running)
    finally:
        os.kill(process, signal.SIGCONT)
    assert code == 0
    assert "job : numRestarts" in out
    assert "numRecordsIn" not in out
    assert err == "warning: the job's driver does not answer; these are the metrics that stand in its files\n"


def test_watching_json_is_refused(running, pystate):
    code, out, err = pystate("metrics", running, "--json", "--watch")
    assert (code, out) == (2, "")
    assert "--watch shows no JSON" in err


def test_an_ended_job_is_watched_once(manager, pystate):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")
    code, out, err = pystate("metrics", job, "--watch")
    assert (code, err) == (0, "")
    assert "-1                      ms             job : uptime" in out


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["numRestarts", "numRecordsIn", "words.seen"]),
        ("NUM*", ["numRestarts", "numRecordsIn"]),
        ("job.*", ["numRestarts"]),
        ("count.*", ["numRecordsIn", "words.seen"]),
        ("split.words.*", ["words.seen"]),
        ("seen", []),
    ],
)
def test_a_pattern_is_of_a_name_or_is_preceded_by_what_it_belongs_to(pattern, names):
    rows = [
        row("numRestarts", task=None, operator=None, subtask=None),
        row("numRecordsIn", operator=None),
        row("words.seen", operator="split"),
    ]
    assert [found.name for found in matching(rows, pattern)] == names


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1234567, "records", "1,234,567"),
        (2048, "bytes", "2.00 KB"),
        (2048.5, "bytes/s", "2.00 KB/s"),
        (2300, "ms", "2.3 s"),
        (-1, "ms", "-"),
        (250.0, "ms/s", "25 %"),
        (-1, "ms since 1970", "-"),
        (-(1 << 63), "ms since 1970", "-"),
        (12345.6, None, "12,346"),
        (0.1234, None, "0.123"),
        (-5, None, "-5"),
        (True, None, "true"),
        ("a\nb\x1b", None, "a b?"),
    ],
)
def test_values_are_shown_in_their_units(value, unit, shown):
    assert row(value=value, unit=unit).shown() == shown


def test_watermarks_are_shown_as_times_and_told_as_flinks_numbers(running, pystate):
    code, out, _ = pystate("metrics", running, "--json", "--filter", "*Watermark")
    assert [entry["value"] for entry in json.loads(out)["metrics"]] == list(WATERMARKS)
    lines = pystate("metrics", running, "--filter", "*Watermark").out.splitlines()[1:]
    assert [int(line.split()[1]) for line in lines] == list(WATERMARKS)
    shown = [row("currentInputWatermark", value, unit="ms since 1970").shown() for value in (*WATERMARKS, (1 << 63) - 1)]
    assert (shown[0], shown[2]) == ("none yet", "at its end")
    assert re.fullmatch(r"[\d-]+ [\d:]+, .+ (behind|ahead)", shown[1])


@pytest.mark.parametrize("timed", [True, False])
def test_subtasks_have_a_column_of_event_time_where_there_is_any(timed):
    rows = [row("numRecordsIn", operator=None), row("currentInputWatermark" if timed else "other", 5, operator=None)]
    subtasks = measured_subtasks(rows)
    assert ("Event time" in text_of(subtask_table(subtasks).table(subtasks, 200, unicode=True), 200)) is timed


def test_a_name_of_a_job_can_not_steer_the_terminal_or_add_lines():
    nasty = row("seen\n0  1  -  fake", "x\x1b[2J", task="ta\nsk", operator="o\x1bp")
    for line in [*METRICS.plain([nasty])[1:], *text_of(METRICS.table([nasty], 100, unicode=False), 100).splitlines()]:
        assert line.isprintable()
    assert len(METRICS.plain([nasty])) == 2


@pytest.mark.parametrize("width", [60, 80, 160])
def test_tables_fit(width):
    rows = [
        row(name, 123_456_789, task="a task with a long name " * 2, operator=None, unit=unit)
        for name, unit in [
            ("numRecordsIn", "records"),
            ("numRecordsInPerSecond", "records/s"),
            ("numRecordsOut", "records"),
            ("numRecordsOutPerSecond", "records/s"),
            ("busyTimeMsPerSecond", "ms/s"),
            ("lastEpochDurationMs", "ms"),
            ("lastCheckpointStateSize", "bytes"),
        ]
    ]
    for table in (SUBTASKS.table(measured_subtasks(rows), width, unicode=True), METRICS.table(rows, width, unicode=True)):
        assert max(len(line) for line in text_of(table, 400).splitlines()) <= max(width, 66)


def test_before_the_first_report_there_is_no_table_of_subtasks():
    assert measured_subtasks([row("numRestarts", task=None, operator=None, subtask=None)]) == []


def test_the_first_line_says_what_is_known():
    answer = JobMetrics(name="words", state=JobStatus.RUNNING, up=True, metrics=[])
    job = {"task": None, "operator": None, "subtask": None}
    assert head_line(answer, []) == "words: RUNNING"
    rows = [
        row("numRestarts", 2, unit="restarts", **job),
        row("lastFinishedEpoch", 12, unit="epoch", **job),
        row("lastEpochDuration", 340, unit="ms", **job),
        row("lastCompletedCheckpointId", 7, unit="id", **job),
        row("lastCheckpointDuration", 110, unit="ms", **job),
        row("lastCheckpointFullSize", 9330, unit="bytes", **job),
    ]
    told = "words: RUNNING, 2 restarts, epoch 12 took 340 ms, checkpoint 7 took 110 ms, 9.11 KB"
    assert head_line(answer, rows) == told
    assert head_line(replace(answer, up=False), []) == "words: RUNNING, its driver does not answer"
    assert head_line(replace(answer, up=False, state=JobStatus.FINISHED), []) == "words: FINISHED"


@pytest.mark.parametrize(
    "name", ["rocksdb.compaction-pending-by-column-family.count", "词词词词词词词词词词词词词词词词词词词词.count"]
)
def test_a_long_name_keeps_its_end_at_80_columns(name):
    rows = [row(f"{name}.{which}", 7, task="enrich -> print", operator="enrich") for which in ("first", "second")]
    text = text_of(METRICS.table(rows, 80, unicode=True), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "count.first " in text
    assert "count.second " in text
    assert "\u2026" in text


def test_a_time_is_shown_as_one():
    assert row("started", 1700000000000, unit="ms since 1970").shown() == format_moment(1700000000000, 0)
    assert row("started", 1700000000000, unit="ms since 1970").shown().startswith("2023-11-1")


def test_times_of_subtasks_can_be_told_apart_at_60_columns():
    names = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")
    rows = [row(name, 250.0, operator="a rather long name of an operator", unit="ms/s") for name in names]
    text = text_of(METRICS.table(rows, 60, unicode=True), 60)
    assert all(name in text for name in names[:2])
    assert "uredTimeMsPerSecond" in text

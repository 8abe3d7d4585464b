from __future__ import annotations

from typing import Any

import pytest

from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.sampling.run_sample import RunSample
from pystate_cli.views.run_view import run_view
from tests.cli.views.test_views import HISTORY, NOW, STATISTICS, rendered
from tests.rest_messages import message

JOB = "6077eb43c7a5ff1950bf7e60379598c1"


def progress(**changes: Any) -> JobProgress:
    known = {"epoch": 42, "records-in": 1_234_567, "records-out": 99, "attempt": 0}
    plain = {"name": "word count", "state": "RUNNING", "start-time": NOW - 83_000, "end-time": -1, **known, **changes}
    return message(JobProgress, plain)


CHECKPOINTS = message(CheckpointingStatistics, {**STATISTICS, "history": HISTORY})


def view(sample: RunSample, width: int = 80, encoding: str = "utf-8") -> str:
    return rendered(run_view(sample, width, unicode=encoding == "utf-8", now=NOW), width, encoding)


def test_the_view_tells_state_figures_and_the_last_checkpoints():
    assert (
        view(RunSample(JOB, progress(), 12_345.4, 0.0, CHECKPOINTS))
        == """\
────────────────────────────────────────────────────────────────────────────────
word count  6077eb43c7a5ff1950bf7e60379598c1
● RUNNING   uptime 1 m 23 s   epoch 42   in 12,345 rows/s   out 0 rows/s
rows in 1,234,567   rows out 99
checkpoints: 9 triggered: 7 completed, 1 in progress, 1 failed, restored 1 time
ID Kind       Triggered Duration    Full    Incr Delay Align Sync Async Ack
───────────────────────────────────────────────────────────────────────────
14 checkpoint …  11:59:49   11.0 s 45.6 KB     0 B     -     -    -     - 2/6
13 checkpoint ✓  11:59:49    2.3 s 45.6 KB  118 MB 34 ms 12 ms 4 ms 2.2 s 6/6
12 savepoint  ✓  11:59:49   110 ms 45.6 KB 9.11 KB 34 ms  0 ms 4 ms  5 ms 6/6
""".replace("ID Kind       Triggered", "ID Kind         Triggered").replace("─" * 75 + "\n14", "─" * 77 + "\n14")
    )


def test_what_is_not_known_is_a_dash():
    text = view(RunSample(JOB, progress(**{"epoch": None, "records-in": None, "records-out": None}), None, None, None))

    assert "epoch -   in - rows/s   out - rows/s" in text
    assert "rows in -\nrows out -" in text
    assert "epoch -" in view(RunSample(JOB, progress(epoch=-1), None, None, None))
    assert "checkpoint" not in text


def test_a_restarted_job_shows_its_attempt():
    text = view(RunSample(JOB, progress(attempt=2, state="RESTARTING"), None, None, None))

    assert "● RESTARTING   uptime 1 m 23 s   attempt 2" in text


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_no_line_is_wider_than_the_terminal(width):
    sample = RunSample(JOB, progress(), 12_345.4, 0.0, CHECKPOINTS)

    for line in view(sample, width).splitlines():
        assert len(line) <= width


def test_a_terminal_without_unicode():
    assert view(RunSample(JOB, progress(), 1.0, 1.0, CHECKPOINTS), 80, "ascii").isascii()


def test_a_restore_shows_how_far_it_is():
    restore = {"checkpoint-id": 12, "bytes": 60 << 20, "total": 240 << 20}
    sample = RunSample(JOB, progress(state="CREATED", restore=restore), None, None, None)

    assert f"restoring checkpoint 12  {'━' * 24}  60.0 MB of 240 MB" in view(sample)
    assert f"restoring checkpoint 12  {'#' * 6}{'-' * 18}  60.0 MB of 240 MB" in view(sample, encoding="ascii")


def test_a_restore_without_keyed_state_has_an_empty_bar():
    sample = RunSample(JOB, progress(restore={"checkpoint-id": 3, "bytes": 0, "total": 0}), None, None, None)

    assert f"{'-' * 24}  0 B of 0 B" in view(sample, encoding="ascii")


def test_a_job_with_event_time_shows_its_watermark():
    assert "watermark" in view(RunSample(JOB, progress(watermark=NOW - 5_000), None, None, None))

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from pystate_cli.views import checkpoint_list, job_list
from pystate_cli.views.checkpoint_list import CheckpointRow

NOW = int(datetime(2026, 11, 21, 12, 0, 0).astimezone().timestamp() * 1000)
DIRECTORY = "/data/checkpoints/6077eb43c7a5ff1950bf7e60379598c1"


def rendered(renderable: Any, width: int, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = RichConsole(file=file, width=width, highlight=False, force_terminal=False)
    console.print(renderable)
    file.seek(0)
    return "".join(f"{line.rstrip()}\n" for line in file.read().splitlines())


def job(
    state: str, name: str = "keyed-count", age: int = 83_000, jid: str = "6077eb43c7a5ff1950bf7e60379598c1"
) -> dict[str, Any]:
    tasks = {"running": 2 if state == "RUNNING" else 0, "total": 2}
    return {"jid": jid, "name": name, "state": state, "start-time": NOW - age, "duration": age, "tasks": tasks}


def entry(number: int, status: str = "COMPLETED", **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "status": status,
        "is_savepoint": False,
        "trigger_timestamp": NOW - 11_000,
        "end_to_end_duration": 110,
        "state_size": 5 * 9330,
        "checkpointed_size": 9330,
        "num_subtasks": 6,
        "num_acknowledged_subtasks": 6,
        "external_path": f"{DIRECTORY}/chk-{number}",
        "discarded": False,
        "start_delay": 34,
        "alignment_duration": 0,
        "sync_duration": 4,
        "async_duration": 5,
        **changes,
    }


def unknown() -> dict[str, Any]:
    return {name: None for name in ("start_delay", "alignment_duration", "sync_duration", "async_duration")}


HISTORY = [
    entry(
        14,
        "IN_PROGRESS",
        end_to_end_duration=-1,
        checkpointed_size=0,
        num_acknowledged_subtasks=2,
        external_path=None,
        **unknown(),
    ),
    entry(13, end_to_end_duration=2310, checkpointed_size=123_456_789, alignment_duration=12, async_duration=2200),
    entry(12, is_savepoint=True, external_path="/data/savepoints/savepoint-6077eb-ab97900ff7c9"),
    entry(
        11,
        "FAILED",
        end_to_end_duration=600_000,
        num_acknowledged_subtasks=5,
        external_path=None,
        failure_message="Checkpoint expired before completing.\nmore",
        **unknown(),
    ),
    entry(10, discarded=True, alignment_duration=None, trigger_timestamp=NOW - 2 * 86_400_000),
]
ROWS = [CheckpointRow.of(one) for one in HISTORY]
STATISTICS = {
    "counts": {"restored": 1, "total": 9, "in_progress": 1, "completed": 7, "failed": 1},
    "latest": {"restored": {"id": 5, "external_path": "/data/savepoints/savepoint-83f146-b2380c89c7cf"}},
}


def test_checkpoints_on_80_columns():
    assert (
        rendered(checkpoint_list.table(ROWS, 80, unicode=True, now=NOW), 80)
        == """\
ID Kind           Triggered  Duration    Full    Incr Delay Align Sync Async Ack
────────────────────────────────────────────────────────────────────────────────
14 checkpoint …    11:59:49    11.0 s 45.6 KB     0 B     -     -    -     - 2/6
13 checkpoint ✓    11:59:49     2.3 s 45.6 KB  118 MB 34 ms 12 ms 4 ms 2.2 s 6/6
12 savepoint  ✓    11:59:49    110 ms 45.6 KB 9.11 KB 34 ms  0 ms 4 ms  5 ms 6/6
11 checkpoint ✗    11:59:49 10 m 00 s 45.6 KB 9.11 KB     -     -    -     - 5/6
10 checkpoint ✓ 11-19 12:00    110 ms 45.6 KB 9.11 KB 34 ms     - 4 ms  5 ms 6/6
"""
    )


def test_checkpoints_on_160_columns():
    expected = (Path(__file__).parent / "expected" / "checkpoints_160.txt").read_text("utf-8")

    assert rendered(checkpoint_list.table(ROWS[1:4], 160, unicode=True, now=NOW), 160) == expected


def test_checkpoints_on_a_terminal_without_unicode():
    text = rendered(checkpoint_list.table(ROWS, 80, unicode=False, now=NOW), 80, "ascii")

    assert text.splitlines()[2] == "14|chk |..|   11:59:49|   11.0 s|45.6 KB|    0 B|    -|    -|   -|    -|2/6"
    assert text.isascii()


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 100, 120, 160])
def test_no_row_of_the_checkpoint_table_is_cut(width):
    lines = rendered(checkpoint_list.table(ROWS[1:], width, unicode=True, now=NOW), width).splitlines()

    assert len(lines) == 2 + len(ROWS[1:])
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_the_summary_tells_counts():
    assert checkpoint_list.summary_line(STATISTICS) == ("9 triggered: 7 completed, 1 in progress, 1 failed, restored 1 time")
    nothing = {"counts": {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0}}
    assert checkpoint_list.summary_line(nothing) == "No checkpoint yet."


def test_paths_stand_beside_their_labels_where_there_is_room():
    assert checkpoint_list.path_lines(ROWS, STATISTICS, 100) == [
        f"checkpoint 13         {DIRECTORY}/chk-13",
        "savepoint 12          /data/savepoints/savepoint-6077eb-ab97900ff7c9",
        "checkpoint 11 failed  Checkpoint expired before completing.",
        "restored from 5       /data/savepoints/savepoint-83f146-b2380c89c7cf",
    ]
    assert checkpoint_list.path_lines(ROWS, STATISTICS, 60)[:2] == ["checkpoint 13:", f"{DIRECTORY}/chk-13"]


def test_checkpoints_for_programs_have_plain_numbers_in_fixed_columns():
    lines = checkpoint_list.plain_lines(ROWS)

    assert lines[0].split() == [
        "id",
        "kind",
        "status",
        "triggered",
        "duration_ms",
        "full_bytes",
        "incremental_bytes",
        "start_delay_ms",
        "alignment_ms",
        "sync_ms",
        "async_ms",
        "acknowledged",
        "path",
    ]
    cells = [line.split() for line in lines[1:]]
    assert [row[0] for row in cells] == ["14", "13", "12", "11", "10"]
    assert cells[0][4:] == ["-", "46650", "0", "-", "-", "-", "-", "2/6", "-"]
    assert cells[1][4:] == ["2310", "46650", "123456789", "34", "12", "4", "2200", "6/6", f"{DIRECTORY}/chk-13"]
    assert cells[4][-1] == "-"
    assert len({line.index(row[11]) for line, row in zip(lines[1:], cells, strict=True)}) == 1


def test_jobs_on_80_columns():
    groups = job_list.JobGroups([job("RUNNING")], [], [job("FAILED", "a" * 60, 90_000_000)])

    assert (
        rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)
        == """\
Job ID                           Name              State       Started Duration
───────────────────────────────────────────────────────────────────────────────
6077eb43c7a5ff1950bf7e60379598c1 keyed-count       RUNNING    11:58:37 1 m 23 s
6077eb43c7a5ff1950bf7e60379598c1 aaaaaaaaaaaaaaaa… FAILED  11-20 11:00 1 d 01 h
"""
    )


def test_jobs_on_160_columns():
    groups = job_list.JobGroups([job("RUNNING")], [], None)

    assert (
        rendered(job_list.table(groups, 160, unicode=True, now=NOW), 160)
        == """\
Job ID                            Name         State       Started  Duration  Tasks
───────────────────────────────────────────────────────────────────────────────────
6077eb43c7a5ff1950bf7e60379598c1  keyed-count  ● RUNNING  11:58:37  1 m 23 s    2/2
"""
    )


@pytest.mark.parametrize("width", [55, 60, 70, 80, 100, 160])
def test_a_job_id_is_never_cut(width):
    groups = job_list.JobGroups([job("RUNNING", age=90_000_000)], [], None)

    lines = rendered(job_list.table(groups, width, unicode=True, now=NOW), width).splitlines()

    assert lines[2].startswith("6077eb43c7a5ff1950bf7e60379598c1 ")
    assert "RUNNING" in lines[2]
    assert len(lines[2]) <= width


def test_no_jobs_are_said_so():
    assert (
        rendered(job_list.table(job_list.JobGroups([], [], None), 80, unicode=True), 80) == "No running or scheduled jobs.\n"
    )
    assert rendered(job_list.table(job_list.JobGroups(None, [], None), 80, unicode=True), 80) == "No scheduled jobs.\n"
    assert rendered(job_list.table(job_list.JobGroups([], [], []), 80, unicode=True), 80) == "No jobs.\n"


def test_a_name_with_markup_is_shown_as_it_is():
    groups = job_list.JobGroups([job("RUNNING", "[red]x[/]")], None, None)

    assert "[red]x[/]" in rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)


def test_a_name_can_not_steer_the_terminal():
    groups = job_list.JobGroups([job("RUNNING", "a\x1b[2Jb\nc")], None, None)

    assert "a?[2Jb c" in rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)
    assert "a?[2Jb c (RUNNING)" in job_list.plain_lines(groups)[1]


def test_programs_get_the_flink_clients_lines():
    groups = job_list.JobGroups([job("RUNNING")], [], [job("FAILED", "other")])
    started = datetime.fromtimestamp((NOW - 83_000) / 1000).astimezone().strftime("%d.%m.%Y %H:%M:%S")

    assert job_list.plain_lines(groups) == [
        "------------------ Running/Restarting Jobs -------------------",
        f"{started} : 6077eb43c7a5ff1950bf7e60379598c1 : keyed-count (RUNNING)",
        "--------------------------------------------------------------",
        "No scheduled jobs.",
        "---------------------- Terminated Jobs -----------------------",
        f"{started} : 6077eb43c7a5ff1950bf7e60379598c1 : other (FAILED)",
        "--------------------------------------------------------------",
    ]

from __future__ import annotations

import io
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from pystate.runtime.rest.checkpoint_messages import (
    CheckpointCounts,
    CheckpointingStatistics,
    CheckpointStatistics,
    RestoredCheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
)
from pystate.runtime.rest.job_messages import JobDetails
from pystate_cli.commands.snapshots import checkpoints as checkpoints_command
from pystate_cli.console.console import Console
from pystate_cli.views import job_lines, job_list, watch_view
from pystate_cli.views.snapshots import checkpoint_details, checkpoint_list, checkpoint_summary
from pystate_cli.views.snapshots.checkpoint_details import CheckpointDetails
from pystate_cli.views.snapshots.checkpoint_list import CheckpointRow
from tests.rest_messages import message

NOW = int(datetime(2026, 11, 21, 12, 0, 0).astimezone().timestamp() * 1000)
DIRECTORY = "/data/checkpoints/6077eb43c7a5ff1950bf7e60379598c1"


def rendered(renderable: Any, width: int, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = RichConsole(file=file, width=width, highlight=False, force_terminal=False)
    console.print(renderable)
    file.seek(0)
    return "".join(f"{line.rstrip()}\n" for line in file.read().splitlines())


def job(
    state: str, name: str = "keyed-count", age: int = 83_000, jid: str = "6077eb43c7a5ff1950bf7e60379598c1", **changes: Any
) -> JobDetails:
    tasks = {"running": 2 if state == "RUNNING" else 0, "total": 2}
    plain = {"jid": jid, "name": name, "state": state, "start-time": NOW - age, "duration": age, "tasks": tasks}
    return message(JobDetails, {**plain, **changes})


def entry(number: int, status: str = "COMPLETED", **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "status": status,
        "is_savepoint": False,
        "checkpoint_type": "CHECKPOINT",
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
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
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
    entry(
        12, is_savepoint=True, checkpoint_type="SAVEPOINT", external_path="/data/savepoints/savepoint-6077eb-ab97900ff7c9"
    ),
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


def checkpoint_row(plain: dict[str, Any]) -> CheckpointRow:
    return CheckpointRow.of(message(CheckpointStatistics, plain))


ROWS = [checkpoint_row(one) for one in HISTORY]
STATISTICS: dict[str, Any] = {
    "counts": {"restored": 1, "total": 9, "in_progress": 1, "completed": 7, "failed": 1},
    "latest": {"restored": {"id": 5, "external_path": "/data/savepoints/savepoint-83f146-b2380c89c7cf"}},
}
RESTORED = message(RestoredCheckpointStatistics, STATISTICS["latest"]["restored"])


def test_checkpoints_on_80_columns():
    assert (
        rendered(checkpoint_list.CHECKPOINTS.table(ROWS, 80, unicode=True, now=NOW), 80)
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
    expected = (Path(__file__).parents[1] / "expected" / "checkpoints_160.txt").read_text("utf-8")

    assert rendered(checkpoint_list.CHECKPOINTS.table(ROWS[1:4], 160, unicode=True, now=NOW), 160) == expected


def test_checkpoints_on_a_terminal_without_unicode():
    text = rendered(checkpoint_list.CHECKPOINTS.table(ROWS, 80, unicode=False, now=NOW), 80, "ascii")

    assert text.splitlines()[2] == "14|chk |..|   11:59:49|   11.0 s|45.6 KB|    0 B|    -|    -|   -|    -|2/6"
    assert text.isascii()


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 100, 120, 160])
def test_no_row_of_the_checkpoint_table_is_cut(width):
    lines = rendered(checkpoint_list.CHECKPOINTS.table(ROWS[1:], width, unicode=True, now=NOW), width).splitlines()

    assert len(lines) == 2 + len(ROWS[1:])
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_the_summary_tells_counts():
    assert checkpoint_list.summary_line(message(CheckpointCounts, STATISTICS["counts"])) == (
        "9 triggered: 7 completed, 1 in progress, 1 failed, restored 1 time"
    )
    assert checkpoint_list.summary_line(message(CheckpointCounts, {})) == "No checkpoint yet."


def test_paths_stand_beside_their_labels_where_there_is_room():
    assert checkpoint_list.path_lines(ROWS, RESTORED, 100) == [
        f"checkpoint 13         {DIRECTORY}/chk-13",
        "savepoint 12          /data/savepoints/savepoint-6077eb-ab97900ff7c9",
        "checkpoint 11 failed  Checkpoint expired before completing.",
        "restored from 5       /data/savepoints/savepoint-83f146-b2380c89c7cf",
    ]
    assert checkpoint_list.path_lines(ROWS, RESTORED, 60)[:2] == ["checkpoint 13:", f"{DIRECTORY}/chk-13"]


def test_a_checkpoint_that_waits_for_the_end_of_an_epoch_says_so():
    waiting = checkpoint_row({**HISTORY[0], "waits_for_epoch": 2, "waits_since": NOW - 9000})
    words = "waits for the end of epoch 2, since 9.0 s"
    assert checkpoint_list.path_lines([waiting], None, 100, NOW) == [f"checkpoint 14  {words}"]
    assert checkpoint_list.wait_lines([*ROWS, waiting], NOW) == [f"{waiting.kind.capitalize()} 14 {words}."]
    lines = [str(line) for line in watch_view._checkpoints([waiting], 80, NOW, unicode=True)]
    assert lines[-1].strip() == words


def test_a_list_in_a_pipe_tells_aside_what_waits():
    waiting = {**HISTORY[0], "waits_for_epoch": 2}
    out, err = io.StringIO(), io.StringIO()
    checkpoints_command._show(
        Console(out, err), checkpoints_command._List(message(CheckpointingStatistics, {**STATISTICS, "history": [waiting]}))
    )
    assert out.getvalue().splitlines() == checkpoint_list.CHECKPOINTS.plain([checkpoint_row(waiting)])
    assert err.getvalue().endswith(" 14 waits for the end of epoch 2.\n")


def test_checkpoints_for_programs_have_plain_numbers_in_fixed_columns():
    lines = checkpoint_list.CHECKPOINTS.plain(ROWS)

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
        "buffered_bytes",
        "processed_bytes",
        "persisted_bytes",
        "type",
        "acknowledged",
        "path",
    ]
    cells = [line.split() for line in lines[1:]]
    assert [row[0] for row in cells] == ["14", "13", "12", "11", "10"]
    in_flight = ["0", "0", "0", "CHECKPOINT"]
    assert cells[0][4:] == ["-", "46650", "0", "-", "-", "-", "-", *in_flight, "2/6", "-"]
    assert cells[1][4:] == ["2310", "46650", "123456789", "34", "12", "4", "2200", *in_flight, "6/6", f"{DIRECTORY}/chk-13"]
    assert cells[4][-1] == "-"
    assert len({line.index(row[15]) for line, row in zip(lines[1:], cells, strict=True)}) == 1


OVERTAKEN = {"alignment_buffered": 2048, "processed_data": 70_000, "persisted_data": 3 << 20}
UNALIGNED = entry(15, checkpoint_type="UNALIGNED_CHECKPOINT", **OVERTAKEN)


def test_what_barriers_held_back_and_overtook_is_shown_where_there_is_any():
    rows = [checkpoint_row(UNALIGNED), *ROWS[1:3]]
    shown = [rendered(checkpoint_list.CHECKPOINTS.table(rows, width, unicode=True, now=NOW), width) for width in (110, 80)]

    assert (
        shown[0]
        == """\
ID Kind         Triggered Duration    Full    Incr Delay Align Sync Async    Held    Proc  Flight Ack
─────────────────────────────────────────────────────────────────────────────────────────────────────
15 unaligned  ✓  11:59:49   110 ms 45.6 KB 9.11 KB 34 ms  0 ms 4 ms  5 ms 2.00 KB 68.4 KB 3.00 MB 6/6
13 checkpoint ✓  11:59:49    2.3 s 45.6 KB  118 MB 34 ms 12 ms 4 ms 2.2 s     0 B     0 B     0 B 6/6
12 savepoint  ✓  11:59:49   110 ms 45.6 KB 9.11 KB 34 ms  0 ms 4 ms  5 ms     0 B     0 B     0 B 6/6
"""
    )
    assert shown[1].splitlines()[2] == "15 unal ✓  11:59:49   110 ms 45.6 KB 9.11 KB 34 ms  0 ms 4 ms  5 ms 3.00 MB 6/6"


def test_an_unaligned_checkpoint_says_so_with_its_subtasks_and_in_watch():
    answer = details_answer(checkpoint_type="UNALIGNED_CHECKPOINT", **OVERTAKEN)
    alignment = {"duration": 12, "buffered": 100, "processed": 5, "persisted": 3 << 20}
    for task in answer["tasks"].values():
        task.update(OVERTAKEN)
        for one in task["subtasks"]:
            one["alignment"] = alignment
    found = read_details(answer)
    shown = rendered(checkpoint_details.details_view(found, 80, unicode=True, now=NOW), 80).splitlines()
    watched = [str(line) for line in watch_view._checkpoints([checkpoint_row(UNALIGNED)], 160, NOW, unicode=True)]

    assert shown[0] == "unaligned checkpoint 13  ✓ COMPLETED"
    assert shown[2:4] == [
        "full 45.6 KB   incremental 9.11 KB   held back 2.00 KB",
        "processed meanwhile 68.4 KB   in flight 3.00 MB",
    ]
    assert shown[-1] == "  0 ✓    1.0 s 9.11 KB   933 B  34 ms 12 ms  4 ms 2.2 s 100 B  5 B 3.00 MB"
    assert checkpoint_details.header_line(found) == "unaligned checkpoint 13 COMPLETED, 6/6 acknowledged"
    assert watched[1].startswith("15 ✓ unal")
    assert "in flight" in watched[0]


def test_jobs_on_80_columns():
    groups = job_lines.JobGroups([job("RUNNING")], [], [job("FAILED", "a" * 60, 90_000_000)])

    assert (
        rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)
        == """\
Job ID                           Name               State       Started Duration
────────────────────────────────────────────────────────────────────────────────
6077eb43c7a5ff1950bf7e60379598c1 keyed-count        RUNNING    11:58:37 1 m 23 s
6077eb43c7a5ff1950bf7e60379598c1 aaaaaaaaaaaaaaaaa… FAILED  11-20 11:00 1 d 01 h
"""
    )


def test_jobs_on_160_columns():
    groups = job_lines.JobGroups([job("RUNNING")], [], None)

    assert (
        rendered(job_list.table(groups, 160, unicode=True, now=NOW), 160)
        == """\
Job ID                            Name         State       Started  Duration  Tasks
───────────────────────────────────────────────────────────────────────────────────
6077eb43c7a5ff1950bf7e60379598c1  keyed-count  ● RUNNING  11:58:37  1 m 23 s    2/2
"""
    )


def test_a_long_name_is_cut_only_where_there_is_no_room():
    name = "enrichment of clicks with the customers' master data (v2)"
    groups = job_lines.JobGroups([job("RUNNING", name)], [], None)

    assert name in rendered(job_list.table(groups, 160, unicode=True, now=NOW), 160)
    assert "enrichment of clicks… RUNNING" in rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)


@pytest.mark.parametrize("width", [55, 60, 70, 80, 100, 160])
def test_a_job_id_is_never_cut(width):
    groups = job_lines.JobGroups([job("RUNNING", age=90_000_000)], [], None)

    lines = rendered(job_list.table(groups, width, unicode=True, now=NOW), width).splitlines()

    assert lines[2].startswith("6077eb43c7a5ff1950bf7e60379598c1 ")
    assert "RUNNING" in lines[2]
    assert len(lines[2]) <= width


def test_no_jobs_are_said_so():
    assert (
        rendered(job_list.table(job_lines.JobGroups([], [], None), 80, unicode=True), 80)
        == "No running or scheduled jobs.\n"
    )
    assert rendered(job_list.table(job_lines.JobGroups(None, [], None), 80, unicode=True), 80) == "No scheduled jobs.\n"
    assert rendered(job_list.table(job_lines.JobGroups([], [], []), 80, unicode=True), 80) == "No jobs.\n"


def test_a_name_with_markup_is_shown_as_it_is():
    groups = job_lines.JobGroups([job("RUNNING", "[red]x[/]")], None, None)

    assert "[red]x[/]" in rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)


def test_a_name_can_not_steer_the_terminal():
    groups = job_lines.JobGroups([job("RUNNING", "a\x1b[2Jb\nc")], None, None)

    assert "a?[2Jb c" in rendered(job_list.table(groups, 80, unicode=True, now=NOW), 80)
    assert "a?[2Jb c (RUNNING)" in job_lines.plain_lines(groups)[1]


def test_programs_get_the_flink_clients_lines():
    groups = job_lines.JobGroups([job("RUNNING")], [], [job("FAILED", "other")])
    started = datetime.fromtimestamp((NOW - 83_000) / 1000).astimezone().strftime("%d.%m.%Y %H:%M:%S")

    assert job_lines.plain_lines(groups) == [
        "------------------ Running/Restarting Jobs -------------------",
        f"{started} : 6077eb43c7a5ff1950bf7e60379598c1 : keyed-count (RUNNING)",
        "--------------------------------------------------------------",
        "No scheduled jobs.",
        "---------------------- Terminated Jobs -----------------------",
        f"{started} : 6077eb43c7a5ff1950bf7e60379598c1 : other (FAILED)",
        "--------------------------------------------------------------",
    ]


def test_restarts_are_counted_while_a_job_restarts():
    restarted = {"pystate": {"restarts": 3}}
    groups = job_lines.JobGroups([job("RESTARTING", **restarted), job("RUNNING", **restarted)], [], None)

    lines = rendered(job_list.table(groups, 160, unicode=True, now=NOW), 160).splitlines()

    assert "● RESTARTING (3)  " in lines[2]
    assert "● RUNNING         " in lines[3]


# -- one checkpoint

SUBTASKS = {"count": 3, "total": 1}


def details(status: str = "COMPLETED", missing: int = 0, **changes: Any) -> CheckpointDetails:
    return read_details(details_answer(status, missing, **changes))


def read_details(answer: dict[str, Any]) -> CheckpointDetails:
    kind = TaskCheckpointStatisticsWithSubtaskDetails
    tasks = {vertex: message(kind, task) for vertex, task in answer["tasks"].items()}
    return CheckpointDetails.of(message(CheckpointStatistics, {**answer, "tasks": {}}), tasks)


def details_answer(status: str = "COMPLETED", missing: int = 0, **changes: Any) -> dict[str, Any]:
    tasks = {}
    for number, (uid, count) in enumerate(SUBTASKS.items()):
        taken = count - (missing if uid == "count" else 0)
        subtasks = [subtask(index) if index < taken else PENDING | {"index": index} for index in range(count)]
        measured = {"sync_duration": 4, "async_duration": 2200, "start_delay": 34, "alignment_duration": 12}
        tasks[str(number) * 32] = {
            "uid": uid,
            "name": f"{uid} -> a sink with a long name of its own",
            "num_subtasks": count,
            "num_acknowledged_subtasks": taken,
            "latest_ack_timestamp": NOW - 10_000,
            "end_to_end_duration": 1000,
            "state_size": taken * 9330,
            "checkpointed_size": taken * 933,
            "alignment_buffered": 0,
            "processed_data": 0,
            "persisted_data": 0,
            **measured,
            "summary": summary(),
            "subtasks": subtasks,
        }
    path = {"external_path": changes.pop("external_path", f"{DIRECTORY}/chk-13")}
    return {**entry(13, status, **path, **changes), "epoch": 53, "tasks": tasks}


def subtask(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "status": "completed",
        "ack_timestamp": NOW - 10_000,
        "end_to_end_duration": 1000,
        "state_size": 9330,
        "checkpointed_size": 933,
        "checkpoint": {"sync": 4, "async": 2200},
        "alignment": {"duration": 12},
        "start_delay": 34,
    }


PENDING = {"status": "pending_or_failed"}


def summary() -> dict[str, Any]:
    def figures(value: int) -> dict[str, int]:
        return {"min": value, "avg": 2 * value, "max": 3 * value}

    return {
        "state_size": figures(9330),
        "checkpointed_size": figures(933),
        "end_to_end_duration": figures(110),
        "checkpoint_duration": {"sync": figures(4), "async": figures(5)},
        "alignment": {"duration": figures(12)},
        "start_delay": figures(34),
    }


def test_a_checkpoint_on_80_columns():
    shown = checkpoint_details.details_view(details(missing=1, restore_timestamp=NOW - 5000), 80, unicode=True, now=NOW)

    assert (
        rendered(shown, 80)
        == f"""\
checkpoint 13  ✓ COMPLETED
triggered 11:59:49   duration 110 ms   epoch 53   acknowledged 6/6
full 45.6 KB   incremental 9.11 KB
path      {DIRECTORY}/chk-13
restored  the job last started from it at 11:59:55

Operator               UID   Ack Duration    Full    Incr Delay Align Sync Async
────────────────────────────────────────────────────────────────────────────────
count -> a sink with … count 2/3    1.0 s 18.2 KB 1.82 KB 34 ms 12 ms 4 ms 2.2 s
total -> a sink with … total 1/1    1.0 s 9.11 KB   933 B 34 ms 12 ms 4 ms 2.2 s

count -> a sink with a long name of its own  uid count
Sub        Ack Duration    Full    Incr  Delay Align  Sync Async
────────────────────────────────────────────────────────────────
min              110 ms 9.11 KB   933 B  34 ms 12 ms  4 ms  5 ms
avg              220 ms 18.2 KB 1.82 KB  68 ms 24 ms  8 ms 10 ms
max              330 ms 27.3 KB 2.73 KB 102 ms 36 ms 12 ms 15 ms
  0 ✓ 11:59:50    1.0 s 9.11 KB   933 B  34 ms 12 ms  4 ms 2.2 s
  1 ✓ 11:59:50    1.0 s 9.11 KB   933 B  34 ms 12 ms  4 ms 2.2 s
  2 ✗        -        -       -       -      -     -     -     -

total -> a sink with a long name of its own  uid total
Sub        Ack Duration    Full    Incr  Delay Align  Sync Async
────────────────────────────────────────────────────────────────
  0 ✓ 11:59:50    1.0 s 9.11 KB   933 B  34 ms 12 ms  4 ms 2.2 s
"""
    )


def test_a_checkpoint_on_160_columns():
    shown = checkpoint_details.details_view(details(), 160, unicode=True, now=NOW)

    assert rendered(shown, 160) == (Path(__file__).parents[1] / "expected" / "checkpoint_160.txt").read_text("utf-8")


def test_a_checkpoint_on_a_terminal_without_unicode():
    text = rendered(checkpoint_details.details_view(details("FAILED", missing=1), 80, unicode=False, now=NOW), 80, "ascii")

    assert text.isascii()
    assert "checkpoint 13  no FAILED" in text
    assert "\n  2|no|" in text
    assert "\ncount -> a sink with..|" in text


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 100, 120, 160])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_of_a_checkpoint_is_wider_than_the_terminal(width, unicode):
    shown = details(missing=1, external_path=None)

    lines = rendered(checkpoint_details.details_view(shown, width, unicode=unicode, now=NOW), width).splitlines()

    assert max(map(len, lines)) <= width
    tables = [line for line in lines if re.match(r" *(min|avg|max|0|1|2)\b", line)]
    assert len(tables) == 3 + 3 + 1
    assert all("1" in line or "9" in line or "2" in line for line in tables), "durations stay to the last"


@pytest.mark.parametrize("height", range(9, 40))
def test_a_checkpoint_keeps_to_its_height_and_counts_the_rest(height):
    shown = details(missing=1, external_path=None)
    everything = rendered(checkpoint_details.details_view(shown, 100, unicode=True, now=NOW), 100).splitlines()

    lines = rendered(checkpoint_details.details_view(shown, 100, unicode=True, height=height, now=NOW), 100).splitlines()

    assert len(lines) <= height
    if len(everything) <= height:
        assert lines == everything
    else:
        left_out = re.fullmatch(r"(\d+) more", lines[-1])
        assert left_out is not None
        rows = re.compile(r" *(min|avg|max|\d) ")
        whole, shown_rows = (len([one for one in part if rows.match(one)]) for part in (everything, lines[:-1]))
        assert whole - int(left_out[1]) == shown_rows


def test_figures_are_left_out_where_they_would_say_nothing():
    names = [[row.index for row in operator.figures] for operator in details(missing=2).operators]
    assert names == [[], []]
    assert [row.index for row in details(missing=1).operators[0].figures] == ["min", "avg", "max"]


def test_a_deleted_checkpoint_says_so_and_a_savepoint_its_format():
    shown = details(discarded=True, is_savepoint=True, savepointFormat="CANONICAL")
    text = rendered(checkpoint_details.details_view(shown, 160, unicode=True, now=NOW), 160)

    assert text.startswith("savepoint 13  ✓ COMPLETED\n")
    assert "format CANONICAL" in text
    assert f"\ndeleted  {DIRECTORY}/chk-13\n" in text


# -- the summary


def statistics(completed: int = 3) -> CheckpointingStatistics:
    def figures(*values: float) -> dict[str, Any]:
        return dict(zip(("min", "avg", "p50", "p90", "p95", "p99", "p999", "max"), values, strict=True))

    nothing = {**figures(0, 0, 0, 0, 0, 0, 0, 0), **dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), "NaN")}
    plain = {
        "counts": {"restored": 0, "total": 3, "in_progress": 0, "completed": completed, "failed": 0},
        "summary": {
            "end_to_end_duration": figures(110, 267, 216.5, 639.0, 639.0, 639.0, 639.0, 63_900),
            "state_size": figures(*[123_456] * 8),
            "checkpointed_size": figures(*[933] * 8),
            "start_delay": figures(*[34] * 8),
            "alignment_duration": nothing,
            "sync_duration": figures(*[4] * 8),
            "async_duration": figures(*[5] * 8),
            "processed_data": figures(*[0] * 8),
            "persisted_data": figures(*[0] * 7, 5),
        },
    }
    return message(CheckpointingStatistics, plain)


def test_the_summary_on_80_columns():
    assert (
        rendered(
            checkpoint_summary.SUMMARY.table(checkpoint_summary.summary_rows(statistics().summary), 80, unicode=True), 80
        )
        == """\
            Min    Avg    p50    p90    p95    p99  p99.9      Max
──────────────────────────────────────────────────────────────────
Duration 110 ms 267 ms 216 ms 639 ms 639 ms 639 ms 639 ms 1 m 03 s
Full     121 KB 121 KB 121 KB 121 KB 121 KB 121 KB 121 KB   121 KB
Incr      933 B  933 B  933 B  933 B  933 B  933 B  933 B    933 B
Delay     34 ms  34 ms  34 ms  34 ms  34 ms  34 ms  34 ms    34 ms
Align         -      -      -      -      -      -      -        -
Sync       4 ms   4 ms   4 ms   4 ms   4 ms   4 ms   4 ms     4 ms
Async      5 ms   5 ms   5 ms   5 ms   5 ms   5 ms   5 ms     5 ms
Pers        0 B    0 B    0 B    0 B    0 B    0 B    0 B      5 B
"""
    )


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 100, 120, 160])
def test_no_line_of_the_summary_is_cut(width):
    lines = rendered(
        checkpoint_summary.SUMMARY.table(checkpoint_summary.summary_rows(statistics().summary), width, unicode=True), width
    ).splitlines()

    assert len(lines) == 2 + 8
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert "1 m 03 s" in lines[2], "the maximum stays"


def test_the_summary_says_of_what():
    titles = [checkpoint_summary.summary_title(completed) for completed in (0, 1, 2, 10_001)]
    assert titles == [
        "No checkpoint has completed yet.",
        "1 completed checkpoint or savepoint",
        "2 completed checkpoints and savepoints",
        "10001 completed checkpoints and savepoints; percentiles of the last 10,000",
    ]

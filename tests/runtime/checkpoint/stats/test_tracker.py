from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointedTask, CheckpointStats
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from tests.runtime.checkpoint.stats.statistics import Statistics

SAVEPOINT = CheckpointType.SAVEPOINT
SLOWEST = ("sync_duration", "async_duration", "start_delay", "alignment_duration")
OURS = {"epoch", "path", "restore_timestamp", "completion_timestamp", *SLOWEST}
COUNT = CheckpointedTask("count", "c0" * 16, "count -> print")
OUR_TASK = {
    "uid": "count",
    "name": "count -> print",
    "sync_duration": 4,
    "async_duration": 5,
    "start_delay": 34,
    "alignment_duration": 0,
}
TASK_OF_SIX = {  # of `driver.run(6, 1795232042719, 59, 265)`
    "id": 6,
    "status": "COMPLETED",
    "latest_ack_timestamp": 1795232042778,
    "checkpointed_size": 265,
    "state_size": 265,
    "end_to_end_duration": 59,
    "alignment_buffered": 0,
    "processed_data": 0,
    "persisted_data": 0,
    "num_subtasks": 1,
    "num_acknowledged_subtasks": 1,
    **OUR_TASK,
}
NOTHING = {"min": 0, "max": 0, "avg": 0, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "p999": 0.0}
NO_PERCENTILES = {"p50": "NaN", "p90": "NaN", "p95": "NaN", "p99": "NaN", "p999": "NaN"}
# The six checkpoints of a Flink 2.3.0 job: trigger, end-to-end duration, size.
SEEN = [
    (1795232017722, 639, 8952),
    (1795232022719, 216, 9330),
    (1795232027719, 217, 9330),
    (1795232032720, 308, 9330),
    (1795232037719, 114, 9330),
    (1795232042719, 110, 9330),
]


def metrics(ack_timestamp: int, size: int = 100, **changes: Any) -> SubtaskCheckpointMetrics:
    made = SubtaskCheckpointMetrics(
        ack_timestamp, sync_ms=4, async_ms=5, start_delay_ms=34, alignment_ms=0, checkpointed_size=size, state_size=size
    )
    return dataclasses.replace(made, **changes)


class Driver:
    """Reports whole checkpoints."""

    def __init__(self, make_metadata: Callable[..., CheckpointMetadata], history_size: int = 10) -> None:
        self.now = 5_000
        self.tracker = CheckpointStatsTracker(history_size, lambda: self.now)
        self.tracker.describe_tasks([COUNT])
        self._make_metadata = make_metadata

    def trigger(
        self, checkpoint_id: int, at: int = 1_000, kind: CheckpointType = CheckpointType.CHECKPOINT, subtasks: int = 1
    ) -> PendingCheckpoint:
        pending = PendingCheckpoint(
            checkpoint_id,
            40 + checkpoint_id,
            checkpoint_type=kind,
            format=SavepointFormatType.CANONICAL,
            trigger_timestamp=at,
            tasks={("count", index) for index in range(subtasks)},
            location=SnapshotLocation(f"file:/ckpt/chk-{checkpoint_id}"),
        )
        self.tracker.report_pending(pending)
        return pending

    def complete(self, pending: PendingCheckpoint) -> None:
        metadata = self._make_metadata(
            checkpoint_id=pending.checkpoint_id, epoch=pending.epoch, checkpoint_type=pending.checkpoint_type
        )
        self.tracker.report_completed(CompletedCheckpoint(metadata, pending.location.uri, self.now))

    def run(self, checkpoint_id: int, at: int = 1_000, duration: int = 50, size: int = 100, **options: Any) -> None:
        pending = self.trigger(checkpoint_id, at, **options)
        self.tracker.report_ack(checkpoint_id, "count", 0, metrics(at + duration, size))
        self.complete(pending)


@pytest.fixture
def driver(make_metadata: Callable[..., CheckpointMetadata]) -> Driver:
    return Driver(make_metadata)


def test_metrics_come_back_from_plain_data() -> None:
    for one in (metrics(7), metrics(7, alignment_ms=None, persisted_data=3)):
        assert SubtaskCheckpointMetrics.from_plain(json.loads(json.dumps(one.to_plain()))) == one
    for wrong in ({}, None, {**metrics(7).to_plain(), "sync_ms": -1}, {**metrics(7).to_plain(), "alignment_ms": "x"}):
        with pytest.raises(CorruptSnapshotError):
            SubtaskCheckpointMetrics.from_plain(wrong)


# -- what barriers held back and overtook


def test_bytes_that_were_held_back_processed_and_persisted_are_those_of_all_subtasks(driver: Driver) -> None:
    pending = driver.trigger(1, subtasks=2)
    driver.tracker.report_ack(1, "count", 0, metrics(1_010, buffered_data=300, processed_data=40))
    driver.tracker.report_ack(1, "count", 1, metrics(1_020, buffered_data=100, persisted_data=5000, unaligned=1))
    driver.complete(pending)
    rest = driver.tracker.to_rest()
    names = ("alignment_buffered", "processed_data", "persisted_data")
    assert [rest["history"][0][name] for name in names] == [400, 40, 5000]
    assert [rest["summary"][name]["max"] for name in names] == [400, 40, 5000]
    details = driver.tracker.subtask_details(1, COUNT.vertex_id)
    assert details is not None
    assert [one["alignment"] for one in details["subtasks"]] == [
        {"buffered": 300, "processed": 40, "persisted": 0, "duration": 0},
        {"buffered": 100, "processed": 0, "persisted": 5000, "duration": 0},
    ]
    assert [one["unaligned_checkpoint"] for one in details["subtasks"]] == [False, True]
    assert (details["summary"]["alignment"]["buffered"]["min"], details["alignment_buffered"]) == (100, 400)
    samples = {sample.name: sample.value for sample in driver.tracker.samples()}
    told = ("lastCheckpointAlignmentBuffered", "lastCheckpointProcessedData", "lastCheckpointPersistedData")
    assert [samples[name] for name in told] == [400, 40, 5000]


def test_a_checkpoint_is_unaligned_as_soon_as_one_subtasks_is(driver: Driver) -> None:
    driver.trigger(1, subtasks=2)
    kinds = []
    for subtask, unaligned in enumerate((0, 1)):
        driver.tracker.report_ack(1, "count", subtask, metrics(1_010, unaligned=unaligned))
        kinds.append(driver.tracker.to_rest()["history"][0]["checkpoint_type"])
    assert kinds == ["CHECKPOINT", "UNALIGNED_CHECKPOINT"]


def test_what_was_measured_comes_back_from_the_file(driver: Driver) -> None:
    pending = driver.trigger(1, subtasks=2)
    for subtask in (0, 1):
        driver.tracker.report_ack(1, "count", subtask, metrics(1_010, buffered_data=subtask, unaligned=subtask))
    driver.complete(pending)
    plain = json.loads(json.dumps(driver.tracker.to_plain()))
    assert CheckpointStatsTracker.from_plain(plain, 10, lambda: 0).to_rest() == driver.tracker.to_rest()


# -- GET /jobs/:id/checkpoints


def test_a_job_without_checkpoints_has_an_empty_overview(driver: Driver) -> None:
    assert driver.tracker.to_rest() == {
        "counts": {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0},
        "summary": {
            name: {"min": 0, "max": 0, "avg": 0, **NO_PERCENTILES}
            for name in (
                "checkpointed_size",
                "state_size",
                "end_to_end_duration",
                "alignment_buffered",
                "processed_data",
                "persisted_data",
                *SLOWEST,
            )
        },
        "latest": {"completed": None, "savepoint": None, "failed": None, "restored": None},
        "history": [],
    }


def test_the_overview_of_a_flink_job_is_reproduced(driver: Driver) -> None:
    driver.tracker.report_failed(None, CheckpointFailureReason.IO_EXCEPTION)
    for number, (trigger, duration, size) in enumerate(SEEN, start=1):
        driver.run(number, trigger, duration, size)
        driver.tracker.report_discarded([number - 1])
    rest = driver.tracker.to_rest()
    assert list(rest) == ["counts", "summary", "latest", "history"]
    assert rest["counts"] == {"restored": 0, "total": 7, "in_progress": 0, "completed": 6, "failed": 1}
    sizes = {
        "min": 8952,
        "max": 9330,
        "avg": 9267,
        "p50": 9330.0,
        "p90": 9330.0,
        "p95": 9330.0,
        "p99": 9330.0,
        "p999": 9330.0,
    }
    assert rest["summary"]["checkpointed_size"] == rest["summary"]["state_size"] == sizes
    assert rest["summary"]["end_to_end_duration"]["p50"] == 216.5
    for name in ("alignment_buffered", "processed_data", "persisted_data"):
        assert rest["summary"][name] == NOTHING
    assert [one["id"] for one in rest["history"]] == [6, 5, 4, 3, 2, 1]
    assert [one["discarded"] for one in rest["history"]] == [False] + [True] * 5
    assert rest["latest"]["completed"] == rest["history"][0]
    flinks = {name: value for name, value in rest["history"][0].items() if name not in OURS}
    assert flinks == {
        "className": "completed",
        "id": 6,
        "status": "COMPLETED",
        "is_savepoint": False,
        "savepointFormat": None,
        "trigger_timestamp": 1795232042719,
        "latest_ack_timestamp": 1795232042829,
        "checkpointed_size": 9330,
        "state_size": 9330,
        "end_to_end_duration": 110,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": 1,
        "num_acknowledged_subtasks": 1,
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
        "external_path": "file:/ckpt/chk-6",
        "discarded": False,
    }
    json.dumps(rest, allow_nan=False)


def test_our_own_fields_are_the_slowest_subtasks(driver: Driver) -> None:
    pending = driver.trigger(1, subtasks=2)
    driver.tracker.report_ack(1, "count", 0, metrics(1_010, sync_ms=9, async_ms=1, alignment_ms=1500))
    driver.tracker.report_ack(1, "count", 1, metrics(1_020, sync_ms=2, async_ms=8, start_delay_ms=70))
    driver.complete(pending)
    (entry,) = driver.tracker.to_rest()["history"]
    assert {name: entry[name] for name in OURS} == {
        "completion_timestamp": driver.now,
        "epoch": 41,
        "path": "file:/ckpt/chk-1",
        "sync_duration": 9,
        "async_duration": 8,
        "start_delay": 70,
        "alignment_duration": 1500,
        "restore_timestamp": None,
    }
    summary = driver.tracker.to_rest()["summary"]
    assert [summary[name]["max"] for name in SLOWEST] == [9, 8, 70, 1500]


def test_an_alignment_that_one_subtask_does_not_know_is_not_known(driver: Driver) -> None:
    pending = driver.trigger(1, subtasks=2)
    driver.tracker.report_ack(1, "count", 0, metrics(1_010, alignment_ms=15))
    driver.tracker.report_ack(1, "count", 1, metrics(1_010, alignment_ms=None))
    driver.complete(pending)
    assert driver.tracker.to_rest()["history"][0]["alignment_duration"] is None
    assert driver.tracker.to_rest()["summary"]["alignment_duration"]["p50"] == "NaN"
    details = driver.tracker.subtask_details(1, COUNT.vertex_id)
    assert details is not None
    assert [one["alignment"]["duration"] for one in details["subtasks"]] == [15, -1]
    assert details["summary"]["alignment"]["duration"]["max"] == 15


def test_a_checkpoint_in_progress_is_listed(driver: Driver) -> None:
    driver.trigger(1, subtasks=2)
    (entry,) = driver.tracker.to_rest()["history"]
    assert (entry["className"], entry["status"], entry["latest_ack_timestamp"]) == ("in_progress", "IN_PROGRESS", -1)
    assert (entry["end_to_end_duration"], entry["num_acknowledged_subtasks"], entry["sync_duration"]) == (-1, 0, None)
    assert "external_path" not in entry
    driver.tracker.report_ack(1, "count", 1, metrics(1_040))
    (entry,) = driver.tracker.to_rest()["history"]
    assert (entry["end_to_end_duration"], entry["num_acknowledged_subtasks"]) == (40, 1)
    assert driver.tracker.to_rest()["counts"]["in_progress"] == 1


def test_a_failed_checkpoint_says_when_and_why(driver: Driver) -> None:
    pending = driver.trigger(1, at=1_000)
    driver.now = 3_500
    driver.tracker.report_failed(pending, CheckpointFailureReason.CHECKPOINT_EXPIRED, "Two subtasks are missing.")
    driver.tracker.report_ack(1, "count", 0, metrics(3_600))
    rest = driver.tracker.to_rest()
    (entry,) = rest["history"]
    assert rest["latest"]["failed"] == entry
    assert (entry["className"], entry["failure_timestamp"], entry["end_to_end_duration"]) == ("failed", 3_500, 2_500)
    assert entry["failure_message"] == "The checkpoint expired before it was complete. Two subtasks are missing."
    assert entry["failure_reason"] == "CHECKPOINT_EXPIRED"
    assert entry["num_acknowledged_subtasks"] == 0
    assert rest["counts"] == {"restored": 0, "total": 1, "in_progress": 0, "completed": 0, "failed": 1}
    assert rest["summary"]["state_size"]["p50"] == "NaN"


def test_an_end_is_reported_once(driver: Driver) -> None:
    pending = driver.trigger(1)
    driver.complete(pending)
    driver.complete(pending)
    driver.tracker.report_failed(pending, CheckpointFailureReason.CHECKPOINT_DECLINED)
    counts = driver.tracker.to_rest()["counts"]
    assert (counts["completed"], counts["failed"], counts["total"]) == (1, 0, 1)


def test_savepoints_have_a_place_of_their_own(driver: Driver) -> None:
    driver.run(1)
    driver.run(2, kind=SAVEPOINT)
    latest = driver.tracker.to_rest()["latest"]
    assert (latest["completed"]["id"], latest["savepoint"]["id"]) == (1, 2)
    savepoint = latest["savepoint"]
    assert (savepoint["is_savepoint"], savepoint["savepointFormat"], savepoint["checkpoint_type"]) == (
        True,
        "CANONICAL",
        "SAVEPOINT",
    )


def test_a_restore_is_told(driver: Driver) -> None:
    driver.tracker.report_restored(35, True, "file:/sp/savepoint-83f146-b2380c89c7cf")
    rest = driver.tracker.to_rest()
    assert rest["counts"]["restored"] == 1
    assert rest["latest"]["restored"] == {
        "id": 35,
        "restore_timestamp": 5_000,
        "is_savepoint": True,
        "external_path": "file:/sp/savepoint-83f146-b2380c89c7cf",
    }


def test_only_the_last_checkpoints_are_listed(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    driver = Driver(make_metadata, history_size=3)
    driver.run(1, kind=SAVEPOINT)
    for number in range(2, 7):
        driver.run(number)
    rest = driver.tracker.to_rest()
    assert [one["id"] for one in rest["history"]] == [6, 5, 4]
    assert rest["counts"]["completed"] == 6
    assert rest["latest"]["savepoint"]["id"] == 1
    assert driver.tracker.details(1) is not None
    assert driver.tracker.details(2) is None


def test_a_checkpoint_pushed_out_of_the_list_still_completes(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    driver = Driver(make_metadata, history_size=0)
    driver.run(1)
    rest = driver.tracker.to_rest()
    assert rest["history"] == []
    assert rest["counts"]["completed"] == 1
    assert rest["latest"]["completed"]["num_acknowledged_subtasks"] == 1


def test_an_id_that_comes_again_is_a_new_checkpoint(driver: Driver) -> None:
    for number in (1, 2, 1):
        driver.run(number)
    assert [one["id"] for one in driver.tracker.to_rest()["history"]] == [1, 2]


# -- after the last acknowledgement


def test_when_a_checkpoint_was_completed_and_its_functions_notified_outlives_the_driver() -> None:
    of = Statistics().trigger(1, at=1_000).acknowledge(1, "count", 0, after=20).complete_and_notify(1, 30, 45)
    of.run(2)

    tracker = CheckpointStatsTracker.from_plain(json.loads(json.dumps(of.tracker.to_plain())), 10, lambda: 0)

    told = tracker.to_rest()["history"]
    assert (told[1]["completion_timestamp"], told[1]["notification_timestamp"]) == (1_030, 1_045)
    assert told[0]["completion_timestamp"] == of.now
    assert "notification_timestamp" not in told[0], "nobody has said so"


def test_the_subtask_that_acknowledged_last_is_told_of_each_operator() -> None:
    of = Statistics().trigger(1)
    for subtask, after in ((1, 90), (0, 70)):
        of.acknowledge(1, "count", subtask, after=after)

    told = of.tracker.details(1)

    assert told is not None
    count, total = told["tasks"].values()
    assert (count["last_subtask"]["index"], count["last_subtask"]["end_to_end_duration"]) == (1, 90)
    assert "last_subtask" not in total, "none has"


# -- details


def test_details_break_down_by_operator(driver: Driver) -> None:
    driver.run(6, 1795232042719, 59, 265)
    details = driver.tracker.details(6)
    assert details is not None
    last = details["tasks"][COUNT.vertex_id].pop("last_subtask")
    assert details["tasks"] == {COUNT.vertex_id: TASK_OF_SIX}
    told = driver.tracker.subtask_details(6, COUNT.vertex_id)
    assert told is not None
    assert last == told["subtasks"][0]
    assert {**details, "tasks": {}} == driver.tracker.to_rest()["history"][0]


def test_details_of_subtasks_are_flinks(driver: Driver) -> None:
    driver.run(6, 1795232042719, 59, 265)

    def only(value: int) -> dict[str, object]:
        return {"min": value, "max": value, "avg": value, **NO_PERCENTILES}

    assert driver.tracker.subtask_details(6, COUNT.vertex_id) == {
        **TASK_OF_SIX,
        "summary": {
            "checkpointed_size": only(265),
            "state_size": only(265),
            "end_to_end_duration": only(59),
            "checkpoint_duration": {"sync": only(4), "async": only(5)},
            "alignment": {"buffered": only(0), "processed": only(0), "persisted": only(0), "duration": only(0)},
            "start_delay": only(34),
        },
        "subtasks": [
            {
                "className": "completed",
                "index": 0,
                "ack_timestamp": 1795232042778,
                "end_to_end_duration": 59,
                "checkpointed_size": 265,
                "state_size": 265,
                "checkpoint": {"sync": 4, "async": 5},
                "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": 0},
                "start_delay": 34,
                "unaligned_checkpoint": False,
                "aborted": False,
                "status": "completed",
            }
        ],
    }


def test_several_subtasks_have_percentiles_and_missing_ones_are_pending(driver: Driver) -> None:
    driver.trigger(1, subtasks=3)
    driver.tracker.report_ack(1, "count", 0, metrics(1_010, size=100))
    driver.tracker.report_ack(1, "count", 2, metrics(1_030, size=300))
    details = driver.tracker.subtask_details(1, COUNT.vertex_id)
    assert details is not None
    assert details["summary"]["state_size"]["p50"] == 200.0
    assert details["summary"]["end_to_end_duration"]["max"] == 30
    assert [one["className"] for one in details["subtasks"]] == ["completed", "pending", "completed"]
    assert details["subtasks"][1] == {"className": "pending", "index": 1, "status": "pending_or_failed"}


def test_unknown_checkpoints_and_operators_have_no_details(driver: Driver) -> None:
    driver.run(1)
    assert driver.tracker.details(2) is None
    assert driver.tracker.subtask_details(2, COUNT.vertex_id) is None
    assert driver.tracker.subtask_details(1, "count") is None
    driver.tracker.report_ack(9, "count", 0, metrics(1))


def test_operators_stand_in_the_order_of_the_job_and_must_be_described(driver: Driver) -> None:
    last, first = CheckpointedTask("a", "1" * 32, "last"), CheckpointedTask("z", "2" * 32, "first")
    driver.tracker.describe_tasks([first, last])
    pending = PendingCheckpoint(
        1,
        checkpoint_type=CheckpointType.CHECKPOINT,
        format=SavepointFormatType.CANONICAL,
        trigger_timestamp=0,
        tasks=[("a", 0), ("z", 0)],
        location=SnapshotLocation("file:/ckpt/chk-1"),
    )
    driver.tracker.report_pending(pending)
    details = driver.tracker.details(1)
    assert details is not None
    assert [task["name"] for task in details["tasks"].values()] == ["first", "last"]
    driver.tracker.describe_tasks([first])
    with pytest.raises(ValueError, match=r"\['a'\]"):
        driver.tracker.report_pending(pending)


def test_the_checkpoint_that_a_job_started_from_is_marked(driver: Driver) -> None:
    driver.run(1)
    driver.run(2, kind=SAVEPOINT)
    driver.tracker.report_restored(1, False, "file:/ckpt/chk-1")
    driver.tracker.report_restored(2, False, "file:/elsewhere/chk-2")  # somebody else's
    assert [one["restore_timestamp"] for one in driver.tracker.to_rest()["history"]] == [None, 5_000]


# -- from driver to driver


def again(tracker: CheckpointStatsTracker, history_size: int = 10) -> CheckpointStatsTracker:
    return CheckpointStatsTracker.from_plain(json.loads(json.dumps(tracker.to_plain())), history_size, lambda: 9_000)


def everything(tracker: CheckpointStatsTracker) -> tuple[Any, ...]:
    rest = tracker.to_rest()
    ids = [one["id"] for one in rest["history"]]
    return rest, [tracker.details(one) for one in ids], [tracker.subtask_details(one, COUNT.vertex_id) for one in ids]


def eventful(make_metadata: Callable[..., CheckpointMetadata], history_size: int = 10) -> Driver:
    driver = Driver(make_metadata, history_size)
    driver.tracker.report_failed(None, CheckpointFailureReason.IO_EXCEPTION)
    driver.run(1, kind=SAVEPOINT)
    for number in range(2, 6):
        driver.run(number, duration=10 * number, size=number)
    pending = driver.trigger(6, subtasks=3)
    driver.tracker.report_ack(6, "count", 2, metrics(1_030, size=300))
    driver.tracker.report_failed(pending, CheckpointFailureReason.CHECKPOINT_EXPIRED, "Two are missing.")
    pending = driver.trigger(7, subtasks=3)
    for subtask, delay in enumerate((7, 34, 5)):
        alignment = None if subtask == 1 else 3
        driver.tracker.report_ack(
            7, "count", subtask, metrics(900 + 7 * delay, start_delay_ms=delay, alignment_ms=alignment)
        )
    driver.complete(pending)
    driver.tracker.report_discarded([2, 3])
    driver.tracker.report_restored(5, False, "file:/ckpt/chk-5")
    driver.trigger(8, subtasks=2)
    driver.tracker.report_ack(8, "count", 1, metrics(1_040))
    return driver


def test_statistics_come_back_from_plain_data(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    for size in (10, 3, 0):
        tracker = eventful(make_metadata, size).tracker
        assert everything(again(tracker, size)) == everything(tracker)
        assert again(tracker, size).to_plain() == tracker.to_plain()


def test_a_driver_that_takes_over_goes_on_counting(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    one, other = eventful(make_metadata), eventful(make_metadata)
    other.tracker = again(other.tracker)
    other.tracker.describe_tasks([COUNT])
    for driver in (one, other):
        driver.tracker.report_ack(8, "count", 0, metrics(1_050))
        driver.run(9, duration=400, size=4)
        driver.tracker.report_discarded([7])
    assert everything(other.tracker) == everything(one.tracker)
    assert other.tracker.to_rest()["counts"] == {"restored": 1, "total": 10, "in_progress": 1, "completed": 7, "failed": 2}


def test_a_shorter_history_keeps_the_last(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    tracker = again(eventful(make_metadata).tracker, 2)
    assert [one["id"] for one in tracker.to_rest()["history"]] == [8, 7]
    assert tracker.to_rest()["latest"]["savepoint"]["id"] == 1
    assert tracker.details(4) is None


def test_what_a_dead_driver_had_in_progress_has_failed(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    tracker = again(eventful(make_metadata).tracker)
    tracker.give_up_in_progress(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The driver is gone.", 8_000)
    rest = tracker.to_rest()
    assert rest["counts"] == {"restored": 1, "total": 9, "in_progress": 0, "completed": 6, "failed": 3}
    entry = rest["history"][0]
    assert rest["latest"]["failed"] == entry
    assert (entry["id"], entry["failure_timestamp"], entry["num_acknowledged_subtasks"]) == (8, 8_000, 1)
    assert entry["failure_message"] == "The checkpoint coordinator shut down. The driver is gone."


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.pop("counts"),
        lambda plain: plain.update(history=[99]),
        lambda plain: plain["latest"].update(completed="1"),
        lambda plain: plain["checkpoints"][-1].update(status="GOOD"),
        lambda plain: plain["checkpoints"][-2]["tasks"][0].update(sync_ms=[1]),
        lambda plain: plain["checkpoints"][-2]["tasks"][0].update(sync_ms=None),
        lambda plain: plain["checkpoints"][-2]["tasks"][0].update(num_subtasks=10**9),
        lambda plain: plain["checkpoints"][-1]["tasks"][0].update(acknowledged=[2]),
        lambda plain: plain["summaries"]["state_size"].update(window=[1]),
        lambda plain: plain["summaries"]["state_size"].update(window=["x"] * 6),
        lambda plain: plain["restored"].pop("path"),
    ],
)
def test_damaged_plain_data_is_refused(
    make_metadata: Callable[..., CheckpointMetadata], change: Callable[[dict[str, Any]], Any]
) -> None:
    plain = json.loads(json.dumps(eventful(make_metadata).tracker.to_plain()))
    change(plain)
    with pytest.raises(CorruptSnapshotError):
        CheckpointStatsTracker.from_plain(plain, 10, lambda: 0)


def test_the_figures_of_a_checkpoint_that_has_ended_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Statistics().run(1, 2).trigger(3).acknowledge(3, "count", 0).tracker
    before = tracker.to_rest()
    summed: list[int] = []
    compute = CheckpointStats.figures_of
    monkeypatch.setattr(
        CheckpointStats, "figures_of", lambda stats, *rest: (summed.append(stats.checkpoint_id), compute(stats, *rest))[1]
    )

    assert tracker.to_rest() == before

    assert summed == [3]

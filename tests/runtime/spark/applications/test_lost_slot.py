"""Which slot is lost, where it was and why, from what Spark's status store says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.runtime.spark.applications.lost_slot import SILENT, SlotPlace, lost_slot_sentence, place_of_slot

EXITED = "Remote RPC client disassociated. Likely due to containers exceeding thresholds, or network issues."


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (None, "Slot 0 was lost: its process is gone."),
        (
            SlotPlace("10.0.0.7", "3", EXITED, "ExecutorLostFailure (executor 3 exited)"),
            f"Slot 0 on 10.0.0.7 (executor 3) was lost: the executor is gone: {EXITED}",
        ),
        (
            SlotPlace("10.0.0.7", "3", None, "org.apache.spark.SparkException: Python worker exited unexpectedly\n\tat org"),
            "Slot 0 on 10.0.0.7 (executor 3) was lost: Python worker exited unexpectedly.",
        ),
        (
            SlotPlace("10.0.0.7", "3", None, None),
            "Slot 0 on 10.0.0.7 (executor 3) was lost: its process is gone; Spark does not say why.",
        ),
        (SlotPlace("here", "driver", None, "Python worker exited"), "Slot 0 was lost: Python worker exited."),
        (
            SlotPlace("here", "driver", None, "Python worker exited unexpectedly (crashed). Consider setting 'spark.x' or"),
            "Slot 0 was lost: Python worker exited unexpectedly (crashed).",
        ),
    ],
)
def test_a_lost_slot_is_named_with_host_executor_and_sparks_reason(place, sentence):
    assert lost_slot_sentence(0, "its process is gone", place) == sentence
    running = lost_slot_sentence(0, "its process is gone", place, ", while epoch 3 ran")
    assert running == sentence.replace(" was lost:", " was lost, while epoch 3 ran:")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (SlotPlace("here", "driver", None, "Python worker exited"), f"Slot 0 was lost: {SILENT}."),
        (SlotPlace("a", "3", None, "Python worker exited"), f"Slot 0 on a (executor 3) was lost: {SILENT}."),
        (SlotPlace("a", "3", EXITED, "x"), f"Slot 0 on a (executor 3) was lost: the executor is gone: {EXITED}"),
    ],
)
def test_how_the_task_of_a_silent_slot_ended_after_that_is_no_reason(place, sentence):
    assert lost_slot_sentence(0, SILENT, place) == sentence


def test_a_long_reason_is_one_short_line():
    place = SlotPlace("h", "1", "x" * 5000, None)
    assert place.reason is not None
    assert len(place.reason) < 400


class Many(list):
    def apply(self, index):
        return self[index]

    def size(self):
        return len(self)

    length = size


def some(value):
    return SimpleNamespace(isDefined=lambda: value is not None, get=lambda: value)


def valued(**values):
    """An object of Scala's: each value after a call."""
    return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


def context_with(*tasks, removed=None):
    executors = Many([valued(id="3", removeReason=some(removed)), valued(id="driver", removeReason=some(None))])
    store = SimpleNamespace(taskList=lambda *_: Many(tasks), executorList=lambda active: executors)
    scala = SimpleNamespace(listenerBus=lambda: SimpleNamespace(waitUntilEmpty=lambda _: None), statusStore=lambda: store)
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [4] if group == "slots" else [], getJobInfo=lambda _: SimpleNamespace(stageIds=[9])
    )
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala), statusTracker=lambda: tracker)


def task(index, attempt, host, executor, error):
    return valued(index=index, attempt=attempt, host=host, executorId=executor, errorMessage=some(error))


def test_the_slots_first_task_says_where_it_was():
    tasks = [task(0, 0, "a", "2", None), task(1, 0, "b", "3", "Lost"), task(1, 1, "c", "4", None)]
    assert place_of_slot(context_with(*tasks, removed=EXITED), "slots", 1) == SlotPlace("b", "3", EXITED, "Lost")
    assert place_of_slot(context_with(*tasks), "others", 1) is None
    assert place_of_slot(SimpleNamespace(), "slots", 1) is None, "the JVM is gone"


def test_our_own_cancelling_is_no_reason():
    cancelled = "TaskKilled (Stage cancelled: [SPARK_JOB_CANCELLED] Job 4 cancelled part of cancelled job group slots)"
    assert place_of_slot(context_with(task(1, 0, "b", "3", cancelled)), "slots", 1) == SlotPlace("b", "3", None, None)

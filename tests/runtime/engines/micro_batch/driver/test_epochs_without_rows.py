"""When epochs that no batch has made begin, and what the end of an attempt does to them."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.micro_batch.driver.attempt_epochs import BegunEpoch
from pystate.runtime.engines.micro_batch.driver.epochs_without_rows import EpochsWithoutRows
from pystate.runtime.plan.task import JobEnvironment
from tests.waiting import LONGEST_S, wait_until


class Context:
    """Spark's, as far as it is asked; a job that is cancelled ends."""

    def __init__(self) -> None:
        self.groups: dict[int, str] = {}
        self.cancelled: list[str] = []
        self.over = threading.Event()

    def setLocalProperty(self, name: str, value: str | None) -> None:
        return None

    def setJobGroup(self, group: str, description: str) -> None:
        self.groups[threading.get_ident()] = group

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)
        self.over.set()


def without_rows(context: Context, run: Any) -> EpochsWithoutRows:
    spark: Any = SimpleNamespace(sparkContext=context)
    anything: Any = SimpleNamespace()
    environment = JobEnvironment("b" * 32, "job", 7, {}, "hashmap", 1 << 20, "")
    epochs: Any = SimpleNamespace(begin_again=lambda clock: BegunEpoch(3, 2, clock))
    return EpochsWithoutRows(spark, anything, [], environment, anything, epochs, anything, run, lambda error, trace: None)


def test_the_end_of_the_attempt_cancels_its_spark_jobs_and_waits_for_the_sink():
    context, began, ended = Context(), threading.Event(), []

    def run(epoch, batch, frame, prove):
        began.set()
        context.over.wait(LONGEST_S)
        ended.append(epoch)

    epochs = without_rows(context, run)
    thread = threading.Thread(target=epochs.run_again, args=(5,), daemon=True)
    thread.start()
    began.wait(LONGEST_S)
    epochs.stop(time.monotonic() + 30)
    assert ended == [3], "nothing of it runs beside the next attempt"
    assert context.cancelled == [f"pystate-{'b' * 32}-7-without-rows"] == list(context.groups.values())


def test_the_clock_begins_no_epoch_before_the_first_one_may():
    asked, may, over = threading.Event(), threading.Event(), threading.Event()
    begun: list[float] = []

    def begin_due(pause_s: float) -> BegunEpoch:
        begun.append(pause_s)
        over.set()
        raise AttemptOverError("")

    def await_first() -> None:
        asked.set()
        may.wait(LONGEST_S)

    epochs = without_rows(Context(), None)
    epochs._epochs = SimpleNamespace(begin_due=begin_due)  # type: ignore[assignment]
    epochs.start_clock(1000, await_first)
    assert asked.wait(LONGEST_S)
    assert begun == []
    may.set()
    assert over.wait(LONGEST_S)
    assert begun == [1.1]


def test_a_sink_that_takes_too_long_and_a_thread_that_stops_itself_are_not_waited_for():
    context, began, goes_on = Context(), threading.Event(), threading.Event()

    def run(epoch, batch, frame, prove):
        began.set()
        epochs.stop(time.monotonic() + 30)  # itself
        goes_on.wait(LONGEST_S)

    epochs = without_rows(context, run)
    thread = threading.Thread(target=epochs.run_again, args=(5,), daemon=True)
    thread.start()
    began.wait(LONGEST_S)
    epochs.stop(time.monotonic())
    assert thread.is_alive()
    goes_on.set()
    wait_until(lambda: not thread.is_alive())
    context.cancelled.clear()
    epochs.stop(time.monotonic() + 30)
    assert context.cancelled == [], "nothing runs"

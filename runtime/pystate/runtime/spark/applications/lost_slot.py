"""The host of a lost slot and the reason that Spark gives for it, from the status store, which works without the UI."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pystate.runtime.spark.applications.group_tasks import tasks_of_group

if TYPE_CHECKING:
    from pyspark import SparkContext

_LISTENERS_TIMEOUT_MS = 1000
_LONGEST_REASON = 300
_POLL_S = 0.1
_ADVICE = " Consider setting "
"""The beginning of Spark's advice about crashed workers, which is for authors of Spark functions."""
SILENT = "it has not been heard of for too long"
"""How the loss of a slot was detected whose task still runs as far as Spark knows."""


@dataclass(frozen=True)
class SlotPlace:
    """Where the task of a slot ran, and what Spark knows about its end; None for what is unknown.

    Attributes:
        host: The executor's.
        executor_id: Spark's id of the executor; `driver` without a cluster.
        executor_end: Why the executor is gone.
        task_end: Why the task failed.
    """

    host: str
    executor_id: str
    executor_end: str | None
    task_end: str | None

    @property
    def reason(self) -> str | None:
        """The reason of the slot's end, in one line: the executor's, which ends all its tasks, else the task's."""
        if self.executor_end is not None:
            return f"the executor is gone: {_line(self.executor_end)}"
        return None if self.task_end is None else _line(self.task_end)


def lost_slot_sentence(slot: int, seen: str, place: SlotPlace | None, during: str = "") -> str:
    """Return the sentence on which slot is lost, where it ran and why.

    Args:
        slot: Its number.
        seen: How the loss was detected.
        place: What Spark knows about it.
        during: What it was doing, beginning with a comma.
    """
    if place is None:
        return f"Slot {slot} was lost{during}: {seen}."
    where = "" if place.executor_id == "driver" else f" on {place.host} (executor {place.executor_id})"
    if seen == SILENT:  # its task ended after that: it was cancelled, or it resumed and found itself given up
        place, unknown = replace(place, task_end=None), seen
    else:
        unknown = f"{seen}; Spark does not say why"
    return f"Slot {slot}{where} was lost{during}: {(place.reason or unknown).rstrip('.')}."


def place_of_slot(context: SparkContext, group: str, slot: int, patience_s: float = 0) -> SlotPlace | None:
    """Return where a slot ran, waiting a little for Spark to detect its end; None if Spark doesn't know the slot.

    Args:
        context: The Spark application.
        group: The job group of the slots.
        slot: The slot's number.
        patience_s: How long Spark may take.
    """
    deadline = time.monotonic() + patience_s
    while True:
        place = _place_now(context, group, slot)
        if place is None or place.reason is not None or time.monotonic() >= deadline:
            return place
        time.sleep(_POLL_S)


def _place_now(context: SparkContext, group: str, slot: int) -> SlotPlace | None:
    try:
        for task in tasks_of_group(context, group, patience_ms=_LISTENERS_TIMEOUT_MS, most=10_000):
            if task.index() == slot and task.attempt() == 0:
                end = _text(task.errorMessage())
                if end is not None and group in end:  # a stage that is cancelled names it: that was us
                    end = None
                executor = str(task.executorId())
                return SlotPlace(str(task.host()), executor, _end_of_executor(context, executor), end)
    except Exception:  # a message must never fail because the place is unknown: py4j raises whatever the JVM did
        return None
    return None


def _end_of_executor(context: SparkContext, executor_id: str) -> str | None:
    executors = context._jsc.sc().statusStore().executorList(False)  # noqa: SLF001 - as in `tasks_of_group`
    for index in range(executors.size()):
        executor = executors.apply(index)
        if str(executor.id()) == executor_id:
            return _text(executor.removeReason())
    return None


def _text(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None


def _line(text: str) -> str:
    """Return the first line of Spark's message without the class name of the exception."""
    line = (text.strip().splitlines() or ["it does not say why"])[0].partition(_ADVICE)[0]
    name, colon, rest = line.partition(": ")
    if colon and " " not in name and "." in name:
        line = rest
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ..."

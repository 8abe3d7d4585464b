"""Proves that an epoch is complete, and waits as long as Spark needs to record it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from pystate.common.errors import IncompleteInputError
from pystate.common.processes.machine_load import PatientDeadline
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.engines.micro_batch.spark.input_proof import StageFacts, Verdict, judge, judge_sources

_QUICK_S = 0.05
_QUICK_POLL_S = 0.001
_TIMEOUT_S = 60.0
_POLL_S = 0.02


class StageRecord(Protocol):
    """The known facts about stages, which may lag behind what has happened."""

    def stage(self, stage_id: int) -> StageFacts:
        """Return what is known about a stage."""

    def stages_of(self, job_group: str, stage_id: int) -> list[int]:
        """Return all stages of the job that a stage belongs to, in order."""

    def catch_up(self, timeout_s: float) -> None:
        """Wait until everything that has happened is known, or until the timeout."""


class EpochProof:
    """Compares epochs with Spark's record of its stages.

    Args:
        record: Spark's record.
        repeatable: Whether the sources return the same rows each time they are read, as far as known.
        source_shuffles: Whether sources have shuffles of their own whose rows must all be read.
        clock: Returns monotonic seconds.
        sleep: Sleeps for the given number of seconds.
    """

    def __init__(
        self,
        record: StageRecord,
        *,
        repeatable: bool,
        source_shuffles: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._record = record
        self._repeatable = repeatable
        self._source_shuffles = source_shuffles
        self._clock = clock
        self._sleep = sleep

    def check(self, epoch: int, prepared: Mapping[SubtaskId, PreparedEpoch], job_group: str = "") -> None:
        """Check that the rows Spark counts in its tasks and shuffles are those the subtasks received.

        Args:
            epoch: The epoch number; all tasks of its Spark job have ended.
            prepared: What each subtask has reported about it.
            job_group: The job group of the epoch's Spark job.

        Raises:
            IncompleteInputError: The rows differ, or Spark doesn't report them.
        """
        started = self._clock()
        verdict = self._judge(prepared, job_group)
        # Spark's own wait for its listeners polls every 10 ms, and they are usually done sooner
        while not verdict.is_final and self._clock() < started + _QUICK_S:
            self._sleep(_QUICK_POLL_S)
            verdict = self._judge(prepared, job_group)
        if verdict.is_final:
            return
        deadline = PatientDeadline(_TIMEOUT_S, clock=self._clock)
        while True:
            self._record.catch_up(_TIMEOUT_S)
            verdict = self._judge(prepared, job_group)
            if verdict.waits_for is None:
                break
            if deadline.has_passed():
                message = f"Epoch {epoch} can't be proven whole: Spark does not tell of {verdict.waits_for}."
                hint = "raise spark.scheduler.listenerbus.eventqueue.appStatus.capacity"
                raise IncompleteInputError(message, hint=hint)
            self._sleep(_POLL_S)
        if verdict.wrong:
            message = f"Epoch {epoch} is not whole: {'; '.join(verdict.wrong)}."
            raise IncompleteInputError(message, hint="look for lost shuffle files and executors in Spark's log")

    def _judge(self, prepared: Mapping[SubtaskId, PreparedEpoch], job_group: str) -> Verdict:
        verdict = judge(prepared, self._record.stage, repeatable=self._repeatable)
        if not self._source_shuffles or verdict.waits_for is not None or verdict.wrong:
            return verdict
        first = min(share.stage_id for share in prepared.values())
        known = self._record.stages_of(job_group, first)
        if not known:
            return Verdict(waits_for=f"the job of stage {first}")
        sources = judge_sources(first, [self._record.stage(stage) for stage in known if stage < first])
        return replace(sources, is_clean=sources.is_clean and verdict.is_clean)

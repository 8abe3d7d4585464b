"""Holds results for a program that iterates over them until they may be handed over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from pystate.common.errors import RestoreError
from pystate.core.records.codec import RecordCodec
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput
from pystate.runtime.plan.job_plan import JobPlan, SinkPlan

_LOOK_S = 0.1
_HELD_BYTES = 16 << 20
"""The memory for results of an epoch that waits for its checkpoint; the rest is on disk."""


class CollectedResults:
    """The results of one job, over all its attempts (Flink's CollectResultFetcher with its buffer).

    Results that were handed over can't be taken back. So where an attempt may restart from a checkpoint, an epoch's results
    wait for a checkpoint that contains the epoch, or for the job's end; those of epochs that will be rerun are dropped.
    Where no attempt follows, or none restarts from a checkpoint, they are handed over at the end of their epoch.

    Args:
        plan: The job's plan.
        completed: Returns the last epoch contained in a checkpoint of the job; -1 for none.
        holds: Whether results wait for checkpoints.
    """

    def __init__(self, plan: JobPlan, completed: Callable[[], int], *, holds: bool) -> None:
        self._plan = plan
        self._completed = completed
        self._holds = holds
        self._held: dict[int, list[tuple[SinkPlan, KeptOutput]]] = {}
        self._handed_out = -1
        self._changed = threading.Condition()
        self._attempt_over = False
        self._finished = False
        self._dropped = False
        self._thread: threading.Thread | None = None

    def begin_attempt(self, restored_epoch: int) -> None:
        """Drop the results of epochs after a restored epoch, which will be rerun.

        Raises:
            RestoreError: Some of those results have been handed over.
        """
        with self._changed:
            self._attempt_over = False
            for epoch in [epoch for epoch in self._held if epoch > restored_epoch]:
                self._drop(epoch)
            if self._handed_out > restored_epoch:
                message = "The job is to start again after results that the program has taken already."
                hint = "checkpoints (execution.checkpointing.interval) hold results back until they are sure"
                raise RestoreError(message, where="execute_and_collect()", hint=hint)

    def attempt_over(self) -> None:
        """Stop waiting for the program to take the attempt's results."""
        with self._changed:
            self._attempt_over = True
            self._changed.notify_all()

    def deliver(self, sink: SinkPlan, epoch: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Accept the results of an epoch; waits while the program has enough of them.

        Raises:
            AttemptOverError: The attempt ended while they waited.
        """
        if not self._holds:
            for batch in batches:
                self._handed_out = epoch
                if not sink.step.function.put(self._elements(sink, batch), lambda: self._attempt_over):
                    message = "The attempt is over."
                    raise AttemptOverError(message)
            return
        kept = KeptOutput(_HELD_BYTES)
        for batch in batches:
            kept.append(0, batch.serialize().to_pybytes(), batch.num_rows)
        with self._changed:
            self._held.setdefault(epoch, []).append((sink, kept))
            if self._thread is None:
                self._thread = threading.Thread(target=self._hand_over_what_is_sure, name="collect-results", daemon=True)
                self._thread.start()
            # confirmed results that are not taken yet block the next epoch, so that the disk doesn't fill
            self._changed.wait_for(lambda: self._attempt_over or not self._sure())

    def close(self, *, finished: bool) -> None:
        """Close: hand over all held results if the job has finished, otherwise drop them."""
        with self._changed:
            self._finished, self._dropped, self._attempt_over = finished, not finished, True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        for epoch in list(self._held):
            self._drop(epoch)

    def _hand_over_what_is_sure(self) -> None:
        while True:
            with self._changed:
                if self._dropped or (self._finished and not self._held):
                    return
                epochs = self._sure()
                if not epochs:
                    self._changed.wait(_LOOK_S)
            for epoch in epochs:
                if not self._hand_over(epoch, lambda: self._dropped):
                    return
                with self._changed:
                    self._drop(epoch)
                    self._changed.notify_all()

    def _sure(self) -> list[int]:
        if self._finished or not self._held:
            return sorted(self._held)
        completed = self._completed()
        return sorted(epoch for epoch in self._held if epoch <= completed)

    def _hand_over(self, epoch: int, is_over: Callable[[], bool]) -> bool:
        self._handed_out = epoch
        for sink, kept in self._held[epoch]:
            schema = self._plan.task(sink.task_uid).output(sink.tag).schema()
            for data in kept.batches(0):
                batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
                if not sink.step.function.put(self._elements(sink, batch), is_over):
                    return False
        return True

    def _drop(self, epoch: int) -> None:
        for _, kept in self._held.pop(epoch):
            kept.close()

    def _elements(self, sink: SinkPlan, batch: pa.RecordBatch) -> Sequence[Any]:
        output = self._plan.task(sink.task_uid).output(sink.tag)
        return list(RecordCodec(output.type_info, sink.step.name).decode(batch))

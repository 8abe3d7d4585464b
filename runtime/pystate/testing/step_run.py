"""Drives an operator through steps of which some fail, as a job does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import PystateError
from pystate.testing.harness import OperatorTestHarness
from pystate.testing.operator_snapshot import OperatorSnapshot
from pystate.testing.steps import Checkpoint, EpochEnd, EpochFailure, InputStep, JobFailure, ProcessingTime, Step, Watermark


def run_steps(make: Callable[[], OperatorTestHarness], steps: Iterable[Step]) -> list[Any]:
    """Drive an operator through steps, and return the results that an exactly-once sink would have.

    A function that keeps its state right has the same results with failures and without them (`without_failures`). What is
    done again is done at the processing time of its first try.

    Args:
        make: Returns a new harness, which isn't open yet; called again for each restart.
        steps: The steps.

    Raises:
        Exception: What the function raises.
    """
    run = _Run(make)
    try:
        for step in steps:
            run.take(step)
        return run.results()
    finally:
        run.close()


@dataclass(frozen=True)
class _Times:
    """The processing time, and the watermark of each input, before some step."""

    processing_time: int = 0
    watermarks: tuple[Watermark, ...] = ()

    def after(self, step: InputStep) -> _Times:
        if isinstance(step, ProcessingTime):
            return _Times(step.milliseconds, self.watermarks)
        if isinstance(step, Watermark):
            others = (one for one in self.watermarks if one.input != step.input)
            return _Times(self.processing_time, (*others, step))
        return self


class _Run:
    def __init__(self, make: Callable[[], OperatorTestHarness]) -> None:
        self._make = make
        self._delivered: list[Any] = []
        self._snapshot: OperatorSnapshot | None = None
        self._checkpoints = 0
        self._since_checkpoint: list[InputStep] = []
        self._since_epoch: list[InputStep] = []
        self._times = self._times_of_epoch = self._times_of_checkpoint = _Times()
        self._harness = make()
        self._harness.open()

    def take(self, step: Step) -> None:
        if isinstance(step, Checkpoint):
            self._take_checkpoint()
        elif isinstance(step, EpochFailure):
            self._fail_epoch()
        elif isinstance(step, JobFailure):
            self._restart()
        else:
            self._since_checkpoint.append(step)
            self._do(step)

    def results(self) -> list[Any]:
        return [*self._delivered, *self._harness.extract_output()]

    def close(self) -> None:
        self._harness.close()

    def _do(self, step: InputStep) -> None:
        self._harness.apply(step)
        self._times = self._times.after(step)
        if isinstance(step, EpochEnd):
            self._since_epoch, self._times_of_epoch = [], self._times
        else:
            self._since_epoch.append(step)

    def _take_checkpoint(self) -> None:
        self._checkpoints += 1
        self._snapshot = self._harness.snapshot(self._checkpoints)
        self._harness.notify_of_completed_checkpoint(self._checkpoints)
        self._delivered = self.results()
        self._harness.clear_output()
        self._since_checkpoint, self._since_epoch = [], []
        self._times_of_epoch = self._times_of_checkpoint = self._times

    def _fail_epoch(self) -> None:
        again, self._since_epoch, self._times = self._since_epoch, [], self._times_of_epoch
        try:
            self._harness.roll_back_epoch()
        except PystateError:  # the function keeps state in its own fields: a job would restart
            self._restart()
            return
        self._harness.set_processing_time(self._times.processing_time)
        for step in again:
            self._do(step)

    def _restart(self) -> None:
        self.close()
        self._harness = self._make()
        self._times = self._times_of_epoch = self._times_of_checkpoint
        self._since_epoch = []
        self._harness.set_processing_time(self._times.processing_time)
        if self._snapshot is not None:
            self._harness.initialize_state(_share(self._snapshot))
        self._harness.open()
        for watermark in self._times.watermarks:  # the engine brings them again
            self._harness.apply(watermark)
        for step in self._since_checkpoint:
            self._do(step)


def _share(snapshot: OperatorSnapshot) -> OperatorSnapshot:
    """Return what the subtask gets of its own snapshot: with union state, more than it wrote."""
    if snapshot.parallelism > 1:
        return snapshot
    return OperatorTestHarness.repartition([snapshot], 1, 1, snapshot.max_parallelism)[0]

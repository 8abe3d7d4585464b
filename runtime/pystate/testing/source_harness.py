"""The test harness of a custom source: all its subtasks, driven like in slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pystate.common.errors import StateError
from pystate.common.processes.machine_load import PatientDeadline
from pystate.common.type_info import TypeInformation
from pystate.connectors.operators.source_operator import MOST_BYTES_PER_EPOCH, SourceOperator
from pystate.connectors.source import EpochBound
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.operators.source_input import SourceInput
from pystate.testing.harness import MAX_PARALLELISM, HarnessInput, OperatorTestHarness
from pystate.testing.operator_snapshot import OperatorSnapshot, repartition

_PATIENCE_S = 20.0


class _Subtask(OperatorTestHarness):
    """One subtask."""

    def __init__(self, operator: SourceOperator, coordinate: Any, wake: Callable[[], object], **options: Any) -> None:
        super().__init__(OperatorKind.SOURCE, operator, [HarnessInput()], **options)
        self._ways = (coordinate, wake)

    @property
    def source(self) -> SourceInput:
        """The source operator of the subtask."""
        source = self._chain.operators[-1].source
        assert source is not None  # noqa: S101 - the head is a source
        return source

    def open(self) -> None:
        """Restore the state and open the source."""
        super().open()
        self.source.connect(*self._ways)

    def take(self, *, whole: bool, epoch: EpochBound | None = None) -> None:
        """Take the available elements in the current epoch."""
        self._begin()
        self.source.take(self._chain.watermarks.valves[0], whole=whole, epoch=epoch)
        self._chain.advance_watermarks()


class SourceTestHarness:
    """A harness for all subtasks of a `SourceFunction` or a `Source`.

    `run_epoch` polls each subtask; `snapshot` returns what a checkpoint after that epoch would contain. To test a crash,
    create another harness with the last snapshots, at any parallelism.

    Args:
        source: Returns the source; called for each subtask, as each slot has its own copy.
        snapshots: The snapshots to start from; None for none.
        parallelism: The number of subtasks.
        output_type: The type of the elements; None for untyped.
        rows_per_epoch: The maximum number of elements per epoch and subtask; None for the limit of a job.
        file_bytes_per_epoch: The bound in bytes of files, for sources that support it; 0 for no bound.
        options: See `OperatorTestHarness`.
    """

    def __init__(
        self,
        source: Callable[[], Any],
        snapshots: Sequence[OperatorSnapshot] | None = None,
        *,
        parallelism: int = 1,
        output_type: TypeInformation | None = None,
        rows_per_epoch: int | None = None,
        file_bytes_per_epoch: int = 0,
        **options: Any,
    ) -> None:
        self.woken = 0
        self._epoch = 0
        self._file_bytes = file_bytes_per_epoch
        self._operators = [SourceOperator(source(), output_type) for _ in range(parallelism)]
        options = {**options, "parallelism": parallelism, "output_type": output_type}
        self._subtasks = [
            _Subtask(operator, partial(self._answer, index), self._wake, subtask_index=index, **options)
            for index, operator in enumerate(self._operators)
        ]
        shares = []
        if snapshots is not None:
            most = options.get("max_parallelism", MAX_PARALLELISM)
            shares = repartition(snapshots, snapshots[0].parallelism, parallelism, most)
        for subtask, share in zip(self._subtasks, shares, strict=False):
            subtask.initialize_state(share)
        for subtask in self._subtasks:
            subtask.open()
            subtask.source.bound(rows_per_epoch or subtask.source.most_rows, MOST_BYTES_PER_EPOCH)

    def __enter__(self) -> SourceTestHarness:
        """Return the harness."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the harness."""
        self.close()

    def run_epoch(self, only: Sequence[int] | None = None, *, whole: bool = False) -> list[Any]:
        """Run an epoch, and return its elements, ordered by subtask.

        Args:
            only: The subtasks that take part; None for all, as in a job.
            whole: Whether to wait for the end of the source, as in BATCH mode.
        """
        elements = []
        self._epoch += 1
        for index, subtask in enumerate(self._subtasks):
            if only is None or index in only:
                before = len(subtask.extract_output())
                subtask.take(whole=whole, epoch=EpochBound(self._epoch, index, len(self._subtasks), self._file_bytes))
                subtask.end_epoch()
                elements += subtask.extract_output()[before:]
        return elements

    def run_until(self, done: Callable[[list[Any]], bool]) -> list[Any]:
        """Run epochs until the elements so far meet a condition, and return them.

        Raises:
            StateError: They aren't within 20 s, or longer on a busy machine.
        """
        deadline = PatientDeadline(_PATIENCE_S)
        elements = self.run_epoch()
        while not done(elements):
            if deadline.has_passed():
                message = f"The source has given {len(elements)} elements in {_PATIENCE_S:g} s, and isn't done."
                raise StateError(message)
            elements += self.run_epoch()
        return elements

    def run_to_end(self) -> list[Any]:
        """Run epochs until the source ends, and return all elements."""
        return self.run_until(lambda _: self.ended)

    def roll_back_in_epoch(self, subtask: int = 0) -> None:
        """Run an epoch of a subtask partly, and undo it, as when a Python worker dies.

        Raises:
            PystateError: The epoch had taken elements, so the job would have to restart from its latest checkpoint.
        """
        self._subtasks[subtask].take(whole=False)
        self._subtasks[subtask].roll_back_epoch()

    @property
    def ended(self) -> bool:
        """Whether all subtasks have ended."""
        return all(operator.ended for operator in self._operators)

    def current_watermark(self, subtask: int = 0) -> int:
        """Return a subtask's event time, ms since 1970; -2^63 at the start."""
        return self._subtasks[subtask].current_watermark()

    def next_due(self, subtask: int = 0, now: int = 0) -> int | None:
        """Return when a subtask wants the next epoch, ms since 1970; None if it notifies, or never."""
        return self._operators[subtask].next_due(now)

    def snapshot(self, checkpoint_id: int) -> list[OperatorSnapshot]:
        """Take a snapshot of all subtasks after the last epoch."""
        return [subtask.snapshot(checkpoint_id) for subtask in self._subtasks]

    def notify_of_completed_checkpoint(self, checkpoint_id: int) -> None:
        """Notify the source that a checkpoint is complete."""
        for subtask in self._subtasks:
            subtask.notify_of_completed_checkpoint(checkpoint_id)

    def close(self) -> None:
        """Close all subtasks."""
        for subtask in self._subtasks:
            subtask.close()

    def _answer(self, subtask: int, number: int, messages: list[Any]) -> list[Any] | None:
        return self._operators[0].answer(subtask, number, messages)

    def _wake(self) -> None:
        self.woken += 1

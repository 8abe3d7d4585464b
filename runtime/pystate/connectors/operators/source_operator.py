"""The operator that runs a custom source in a slot: the head of its task, polled in each epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.connectors.operators.function_feed import FunctionFeed
from pystate.connectors.operators.source_feed import Coordinate, Plain, SourceFeed
from pystate.connectors.operators.split_feed import SplitFeed
from pystate.connectors.source import Boundedness, ParallelSourceFunction, ReaderOutput, Source, SourceFunction
from pystate.core.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from pystate.core.api.functions import Function, RuntimeContext

MOST_ROWS_PER_EPOCH = 100_000
"""What one epoch takes at most of a subtask. A barrier waits for its epoch, whose output is kept."""

MOST_BYTES_PER_EPOCH = 64 << 20
"""The same in bytes, by a sample of the elements."""

LONGEST_TAKE_S = 0.5
"""How long one epoch takes what comes; then it goes on with what it has."""

_SHORT_S = 0.1


class TakeLimit:
    """The limit of one epoch in rows and time.

    Args:
        taken: Returns the number of elements taken in the epoch.
        seconds: The time limit; None for no limit at all.
        rows: Returns the row limit.

    Attributes:
        lingers: Whether to wait briefly for more elements: an epoch costs more than that.
    """

    def __init__(self, taken: Callable[[], int], seconds: float | None, rows: Callable[[], int]) -> None:
        self._taken = taken
        self._rows = rows
        self.lingers = seconds is None or seconds >= _SHORT_S
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def rows_left(self) -> int:
        """Return how many more elements the epoch may take."""
        if self._deadline is None:
            return self._rows()
        return 0 if time.monotonic() >= self._deadline else max(0, self._rows() - self._taken())


class SourceOperator(Function, CheckpointedFunction, CheckpointListener):
    """Runs a `SourceFunction` or a `Source`.

    Args:
        source: The source to run.
        type_info: The type of its elements.

    Attributes:
        source: As given.
        bounded: Whether the source declares that it is bounded. A function can't declare it, but may still end.
        parallel: Whether it may have more than one subtask.

    Raises:
        JobGraphError: It is neither.
    """

    def __init__(self, source: Any, type_info: TypeInformation | None = None) -> None:
        if not isinstance(source, (SourceFunction, Source)):
            message = f"{type(source).__name__} is no source: neither a SourceFunction nor a Source."
            hint = "extend pystate.connectors.source.SourceFunction or Source, or read with Spark: env.from_data_frame(...)"
            raise JobGraphError(message, hint=hint)
        self.source = source
        self.bounded = isinstance(source, Source) and source.get_boundedness() is Boundedness.BOUNDED
        self.parallel = isinstance(source, (ParallelSourceFunction, Source))
        self._type = type_info
        self._feed: SourceFeed | None = None

    @property
    def feed(self) -> SourceFeed:
        """The source of this subtask."""
        if self._feed is None:  # created where it runs: threads and locks can't be pickled
            source = self.source
            self._feed = FunctionFeed(source, self._type) if isinstance(source, SourceFunction) else SplitFeed(source)
        return self._feed

    @property
    def keeps_position(self) -> bool:
        """Whether it resumes at its position in a checkpoint."""
        return isinstance(self.source, (Source, CheckpointedFunction, ListCheckpointed))

    @property
    def unlike_again(self) -> str | None:
        """Why a replay from a checkpoint may return different elements, as a clause; None if it can't."""
        return self.source.unlike_again if isinstance(self.source, Source) else None

    @property
    def comes_again(self) -> str | None:
        """Why elements that a checkpoint counts may come again after a failure, as a clause; None if they don't."""
        return self.source.comes_again if isinstance(self.source, Source) else None

    @property
    def ended(self) -> bool:
        """Whether the source has ended."""
        return self.feed.ended

    def connect(self, coordinate: Coordinate, wake: Callable[[], object]) -> None:
        """Set the connections out of the slot.

        Args:
            coordinate: Sends messages to the enumerator.
            wake: Notifies the job that an idle source has an element.
        """
        feed = self.feed
        if isinstance(feed, SplitFeed):
            feed.connect(coordinate, wake)
        elif isinstance(feed, FunctionFeed):
            feed.elements.wake = wake

    def answer(self, subtask: int, number: int, messages: list[Plain]) -> list[Plain] | None:
        """Handle messages of a reader as the enumerator; only in the first subtask."""
        assert isinstance(self.feed, SplitFeed)  # noqa: S101 - others have no readers that ask
        return self.feed.answer(subtask, number, messages)

    def take(self, output: ReaderOutput[Any], limit: TakeLimit, *, wait: bool = False) -> None:
        """Emit the available elements; see `SourceFeed.take`."""
        self.feed.take(output, limit, wait=wait)

    def describe_position(self) -> str | None:
        """Describe the origin of the element that `take` was emitting when it raised; None if unknown."""
        return self.feed.describe_position()

    def next_due(self, now: int) -> int | None:
        """Return when to poll in the next epoch, ms since 1970; None if the source notifies, or never."""
        return self.feed.next_due(now)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore the position of an earlier attempt."""
        self.feed.initialize_state(context)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the source."""
        self.feed.open(runtime_context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Save the position after the last epoch to the state."""
        self.feed.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify a `CheckpointListener` function, or the reader."""
        if isinstance(self._feed, (FunctionFeed, SplitFeed)):
            self._feed.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify a `CheckpointListener` function."""
        if isinstance(self._feed, FunctionFeed):
            self._feed.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the source."""
        if self._feed is not None:
            self._feed.close()

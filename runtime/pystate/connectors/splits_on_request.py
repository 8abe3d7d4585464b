"""Sources whose splits are known at the start: a reader that has none requests the next, and gets it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pystate.connectors.source import (
    InputStatus,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

T = TypeVar("T")
SplitT = TypeVar("SplitT", bound=SourceSplit)


class SplitsOnRequest(SplitEnumerator[SplitT]):
    """Assigns the next split to each reader that requests one.

    Args:
        context: Of the enumerator.
        splits: The unassigned splits.
    """

    def __init__(self, context: SplitEnumeratorContext[SplitT], splits: Iterable[SplitT]) -> None:
        self._context = context
        self._splits = deque(splits)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Assign a split, or signal that there are no more."""
        del requester_hostname
        if self._splits:
            self._context.assign_split(self._splits.popleft(), subtask_id)
        else:
            self._context.signal_no_more_splits(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the unassigned splits."""
        del checkpoint_id
        return [split.to_plain() for split in self._splits]


class RequestingReader(SourceReader[T, SplitT]):
    """The base of readers that read splits in order, and request the next when they have none.

    Args:
        context: Of the reader.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._splits: deque[SplitT] = deque()
        self._asked = False
        self._no_more = False

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Add splits to read."""
        self._splits.extend(splits)
        self._asked = False

    def notify_no_more_splits(self) -> None:
        """End the input after the current splits."""
        self._no_more = True

    def _without_split(self) -> InputStatus:
        """Return the status of a reader that has no split, which it requests if it hasn't yet."""
        if self._no_more:
            return InputStatus.END_OF_INPUT
        if not self._asked:
            self._asked = True
            self._context.send_split_request()
        return InputStatus.NOTHING_AVAILABLE

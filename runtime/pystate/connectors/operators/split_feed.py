"""Runs one subtask of a split-based source: its reader, and in the first subtask the enumerator."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.operators.source_coordinator import (
    AFTER,
    EVENT,
    NO_MORE,
    REGISTER,
    REQUEST,
    SPLIT,
    SourceCoordinator,
)
from pystate.connectors.operators.source_feed import Coordinate, EpochLimit, Plain, SourceFeed
from pystate.connectors.source import InputStatus, ReaderOutput, Source, SourceReader, SourceReaderContext
from pystate.core.api.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from pystate.core.api.functions import RuntimeContext
from pystate.core.api.state import ListState, ListStateDescriptor
from pystate.core.metrics.metric import MetricGroup

SPLITS = "source-reader-splits"
"""The name of the list state with splits as plain values, each as far as it is read."""

ENUMERATOR = "source-enumerator"
"""The name of the union list state with the enumerator's snapshot, which the first subtask writes."""

_FIRST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 1000
_TURN_S = 0.02
_EXCHANGE_EACH_S = 0.05
"""How often a reader that has enough to read asks what its enumerator has for it; the way there leads through the driver."""


class SplitFeed(SourceFeed, SourceReaderContext):
    """One subtask of a `Source`.

    Args:
        source: The user's source.
    """

    def __init__(self, source: Source[Any, Any]) -> None:
        self._source = source
        self._coordinator: SourceCoordinator | None = None
        self._coordinate: Coordinate | None = None
        self._reader: SourceReader[Any, Any] | None = None
        self._restored: list[Any] = []
        self._checkpoint: Plain | None = None
        self._mail: list[Plain] = []
        self._sent = 0
        self._after: int | None = None
        self._no_more = False
        self._started = False
        self._pause_ms = _FIRST_PAUSE_MS
        self._status = InputStatus.MORE_AVAILABLE
        self._exchange_at = 0.0
        self._wake: Callable[[], object] = lambda: None

    # -- lifecycle

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore the splits of this subtask, and the state of the enumerator."""
        store = context.get_operator_state_store()
        self._splits: ListState[Any] = store.get_list_state(ListStateDescriptor(SPLITS))
        self._enumerated: ListState[Any] = store.get_union_list_state(ListStateDescriptor(ENUMERATOR))
        self._restored = list(self._splits.get())
        self._checkpoint = next(iter(self._enumerated.get()), None)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Create the reader, and in the first subtask the enumerator."""
        self._context = runtime_context
        self._reader = self._source.create_reader(self)
        if not isinstance(self._reader, SourceReader):
            message = f"create_reader() of {type(self._source).__name__} returned no SourceReader, but {self._reader!r}."
            raise JobGraphError(message)
        if self._restored:
            self._reader.add_splits([self._source.restore_split(plain) for plain in self._restored])
        if self.get_index_of_subtask() == 0:
            self._coordinator = SourceCoordinator(self._source, self.current_parallelism())
            self._coordinator.start(self._checkpoint)
        self._mail.append([REGISTER, None])

    def connect(self, coordinate: Coordinate, wake: Callable[[], object]) -> None:
        """Set the connection to the enumerator (local in the first subtask), and the wake-up callback."""
        self._coordinate = coordinate
        self._wake = wake

    def answer(self, subtask: int, number: int, messages: list[Plain]) -> list[Plain] | None:
        """Handle messages of a reader as the enumerator."""
        assert self._coordinator is not None  # noqa: S101 - only the first subtask is asked
        return self._coordinator.answer(subtask, number, messages)

    def close(self) -> None:
        """Close reader and enumerator."""
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                reader.close()
        finally:
            if self._coordinator is not None:
                self._coordinator.close()

    def describe_position(self) -> str | None:
        """Delegate to the reader."""
        return None if self._reader is None else self._reader.describe_position()

    # -- the reader's context

    def get_index_of_subtask(self) -> int:
        """Return the index of this subtask."""
        return self._context.get_index_of_this_subtask()

    def current_parallelism(self) -> int:
        """Return the number of subtasks."""
        return self._context.get_number_of_parallel_subtasks()

    def metric_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._context.get_metrics_group()

    def send_split_request(self) -> None:
        """Request a split; sent after the poll."""
        self._mail.append([REQUEST, socket.gethostname()])

    def notify_available(self) -> None:
        """Have the reader polled."""
        self._wake()

    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Send an event; sent after the poll."""
        self._mail.append([EVENT, source_event])

    # -- epochs

    def take(self, output: ReaderOutput[Any], limit: EpochLimit, *, wait: bool) -> None:
        """Poll the reader until it has nothing, or the epoch has enough."""
        reader = self._reader
        assert reader is not None  # noqa: S101 - epochs come between open and close
        if not self._started:
            self._started = True
            reader.start()
        if self._mail or self._status is InputStatus.NOTHING_AVAILABLE or time.monotonic() >= self._exchange_at:
            self._exchange(reader)
        while not self.ended:
            left = limit.rows_left()
            if left <= 0:
                return
            status = self._status = reader.poll_next(output)
            news = self._exchange(reader) if self._mail else False
            if status is InputStatus.END_OF_INPUT:
                self.ended = True
            elif limit.rows_left() < left or status is InputStatus.MORE_AVAILABLE:
                self._pause_ms = _FIRST_PAUSE_MS
            if status is not InputStatus.NOTHING_AVAILABLE or news:
                continue
            if not wait:
                return
            time.sleep(_TURN_S)
            self._exchange(reader)

    def _exchange(self, reader: SourceReader[Any, Any]) -> bool:
        """Send the pending messages, and handle those for the reader; return whether there were any."""
        if self._no_more and not self._mail:
            return False
        self._exchange_at = time.monotonic() + _EXCHANGE_EACH_S
        mail, self._mail = [[AFTER, self._after], *self._mail], []
        self._sent += 1
        if self._coordinator is not None:
            answers = self._coordinator.answer(self.get_index_of_subtask(), self._sent, mail)
        else:
            assert self._coordinate is not None  # noqa: S101 - the slot connects it before the first epoch
            answers = self._coordinate(self._sent, mail)
        if answers is None:  # sent again with the next poll
            self._sent -= 1
            self._mail = mail[1:] + self._mail
            return False
        splits = [self._source.restore_split(about) for word, about in answers if word == SPLIT]
        if splits:
            reader.add_splits(splits)
        for word, about in answers:
            if word == NO_MORE:
                self._no_more = True
                reader.notify_no_more_splits()
            elif word == EVENT:
                reader.handle_source_events(about)
        return bool(answers)

    def next_due(self, now: int) -> int | None:
        """Return when to poll again."""
        if self.ended or self._reader is None:
            return None
        if self._status is not InputStatus.NOTHING_AVAILABLE:
            return now
        if self._mail:  # not accepted: a barrier is between the two
            return now + _FIRST_PAUSE_MS
        at = self._reader.available_at()
        if at is not None:
            return at
        pause, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
        return now + pause

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Snapshot the splits, and in the first subtask the enumerator."""
        assert self._reader is not None  # noqa: S101 - barriers come between open and close
        number = self._after = context.get_checkpoint_id()
        splits = [split.to_plain() for split in self._reader.snapshot_state(number)]
        if self._coordinator is None:
            self._enumerated.clear()
        else:
            own, underway = self._coordinator.snapshot(number)
            splits += underway
            self._enumerated.update([own])
        self._splits.update(splits)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the reader."""
        if self._reader is not None:
            self._reader.notify_checkpoint_complete(checkpoint_id)

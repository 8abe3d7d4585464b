"""Reads a list of sources one after the other; all but the last are bounded.

Source: Flink's HybridSource, HybridSourceSplitEnumerator and HybridSourceReader (FLIP-150).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from pystate.core.metrics.metric import MetricGroup

_FINISHED, _REQUEST, _EVENT = "finished", "request", "event"
_SWITCH, _NO_MORE = "switch", "no more splits"


class HybridSplit(SourceSplit):
    """A split of one of the underlying sources.

    Args:
        number: The index of the source.
        inner: Its split.
    """

    def __init__(self, number: int, inner: SourceSplit) -> None:
        self.number = number
        self.inner = inner

    def split_id(self) -> str:
        """Return its name."""
        return f"{self.number}-{self.inner.split_id()}"

    def to_plain(self) -> list[Any]:
        """Return the plain form of source and split."""
        return [self.number, self.inner.to_plain()]


class _Enumerator(SplitEnumerator[HybridSplit], SplitEnumeratorContext[SourceSplit]):
    """Runs the enumerators of the sources in order; the next starts when all readers have finished the current one."""

    def __init__(
        self, sources: Sequence[Source[Any, Any]], context: SplitEnumeratorContext[HybridSplit], checkpoint: Any = None
    ) -> None:
        self._sources = sources
        self._context = context
        self._number: int
        self._checkpoint: Any
        self._number, self._checkpoint = (0, None) if checkpoint is None else checkpoint
        self._restored = checkpoint is not None
        self._finished: set[int] = set()
        self._inner: SplitEnumerator[Any] | None = None

    def start(self) -> None:
        """Start with the current source."""
        source = self._sources[self._number]
        made = source.restore_enumerator(self, self._checkpoint) if self._restored else source.create_enumerator(self)
        self._inner, self._restored = made, False
        made.start()

    def add_reader(self, subtask_id: int) -> None:
        """Tell a reader the current source."""
        self._context.send_event_to_source_reader(subtask_id, [_SWITCH, self._number])
        if self._inner is not None:
            self._inner.add_reader(subtask_id)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Do nothing: readers send requests as events, which name the source."""

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        """Handle a split request, the end of a source in a reader, or an event of an underlying reader."""
        word, number, about = source_event
        inner = self._inner
        if number != self._number or inner is None:
            if word == _FINISHED and number < self._number:  # it was restored with splits of an earlier source
                self._context.send_event_to_source_reader(subtask_id, [_SWITCH, self._number])
            return
        if word == _REQUEST:
            inner.handle_split_request(subtask_id, about)
        elif word == _EVENT:
            inner.handle_source_event(subtask_id, about)
        else:
            self._finished.add(subtask_id)
            if len(self._finished) == self._context.current_parallelism():
                self._next()

    def _next(self) -> None:
        if self._inner is not None:
            self._inner.close()
        self._finished = set()
        self._number += 1
        for subtask in self._context.registered_readers():
            self._context.send_event_to_source_reader(subtask, [_SWITCH, self._number])
        self.start()
        for subtask in self._context.registered_readers():
            if self._inner is not None:
                self._inner.add_reader(subtask)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the current source and the state of its enumerator."""
        return [self._number, None if self._inner is None else self._inner.snapshot_state(checkpoint_id)]

    def close(self) -> None:
        """Close the enumerator of the current source."""
        if self._inner is not None:
            self._inner.close()

    # -- the context of the inner enumerator

    def current_parallelism(self) -> int:
        """Return the number of readers."""
        return self._context.current_parallelism()

    def registered_readers(self) -> list[int]:
        """Return the registered subtasks."""
        return self._context.registered_readers()

    def assign_split(self, split: SourceSplit, subtask: int) -> None:
        """Assign a split to a reader."""
        self._context.assign_split(HybridSplit(self._number, split), subtask)

    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that this source has no more splits."""
        self._context.send_event_to_source_reader(subtask, [_NO_MORE, self._number])

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send an event to the reader of this source."""
        self._context.send_event_to_source_reader(subtask_id, [_EVENT, self._number, event])


class _Reader(SourceReader[Any, HybridSplit], SourceReaderContext):
    """Reads the sources in order."""

    def __init__(self, sources: Sequence[Source[Any, Any]], context: SourceReaderContext) -> None:
        self._sources = sources
        self._context = context
        self._number = -1
        self._inner: SourceReader[Any, Any] | None = None
        self._finished = False
        self._waiting: dict[int, list[SourceSplit]] = {}  # splits of later sources

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Poll the reader of the current source."""
        if self._inner is None or self._finished:
            return InputStatus.NOTHING_AVAILABLE
        status = self._inner.poll_next(output)
        if status is not InputStatus.END_OF_INPUT or self._number == len(self._sources) - 1:
            return status
        self._finished = True
        self._context.send_source_event_to_coordinator([_FINISHED, self._number, None])
        return InputStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: Sequence[HybridSplit]) -> None:
        """Add splits, also of later sources."""
        for split in splits:
            if split.number == self._number and self._inner is not None:
                self._inner.add_splits([split.inner])
            else:
                self._waiting.setdefault(split.number, []).append(split.inner)

    def handle_source_events(self, source_event: Any) -> None:
        """Handle events of the enumerator."""
        word, number, *about = source_event
        if word == _SWITCH:
            self._switch(min([number, *self._waiting]), number)
        elif number == self._number and self._inner is not None:
            if word == _NO_MORE:
                self._inner.notify_no_more_splits()
            else:
                self._inner.handle_source_events(about[0])

    def _switch(self, number: int, current: int) -> None:
        """Switch to a source; one before the current source gets only the splits that are already here."""
        if number == self._number and not self._finished:
            return
        if self._inner is not None:
            self._inner.close()
        self._number, self._finished = number, False
        self._inner = self._sources[number].create_reader(self)
        splits = self._waiting.pop(number, [])
        if splits:
            self._inner.add_splits(splits)
        self._inner.start()
        if number < current:
            self._inner.notify_no_more_splits()

    def notify_no_more_splits(self) -> None:
        """Do nothing: each source signals this by itself."""

    def available_at(self) -> int | None:
        """Return when to poll again."""
        return None if self._inner is None or self._finished else self._inner.available_at()

    def snapshot_state(self, checkpoint_id: int) -> list[HybridSplit]:
        """Return the current splits."""
        own = [] if self._inner is None or self._finished else self._inner.snapshot_state(checkpoint_id)
        later = [HybridSplit(number, split) for number, splits in self._waiting.items() for split in splits]
        return [*(HybridSplit(self._number, split) for split in own), *later]

    def describe_position(self) -> str | None:
        """Delegate to the reader of the current source."""
        return None if self._inner is None else self._inner.describe_position()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the reader of the current source."""
        if self._inner is not None:
            self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        """Close the reader of the current source."""
        if self._inner is not None:
            self._inner.close()

    # -- the context of the inner reader

    def get_index_of_subtask(self) -> int:
        """Return the index of this subtask."""
        return self._context.get_index_of_subtask()

    def current_parallelism(self) -> int:
        """Return the number of subtasks."""
        return self._context.current_parallelism()

    def metric_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._context.metric_group()

    def notify_available(self) -> None:
        """Have the reader polled."""
        self._context.notify_available()

    def send_split_request(self) -> None:
        """Request a split from the enumerator of this source."""
        self._context.send_source_event_to_coordinator([_REQUEST, self._number, None])

    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Send an event to the enumerator of this source."""
        self._context.send_source_event_to_coordinator([_EVENT, self._number, source_event])


class HybridSource(Source[Any, HybridSplit], SupportsEarlyCheck):
    """A list of sources that are read one after the other; made by `HybridSource.builder(first).add_source(next).build()`.

    Args:
        sources: The sources, in order.

    Raises:
        JobGraphError: One isn't a split-based source of pystate, or an unbounded one isn't the last.
    """

    def __init__(self, sources: Sequence[Source[Any, Any]]) -> None:
        for number, source in enumerate(sources):
            if not isinstance(source, Source):
                message = f"A HybridSource is made of sources with splits; {type(source).__name__} is read by Spark."
                raise JobGraphError(message, hint="unite the streams of both: first.union(second)")
            if number < len(sources) - 1 and source.get_boundedness() is not Boundedness.BOUNDED:
                message = f"Source {number + 1} of the HybridSource has no end, so the next one would never begin."
                raise JobGraphError(message, hint="put the source without an end last")
        self._sources = tuple(sources)
        types = {getattr(source, "produced_type", None) for source in sources}
        self.produced_type = next(iter(types)) if len(types) == 1 else None

    @staticmethod
    def builder(first_source: Source[Any, Any]) -> HybridSourceBuilder:
        """Return a builder that begins with a source."""
        return HybridSourceBuilder(first_source)

    @property
    def unlike_again(self) -> str | None:
        """Why one of them may continue with different elements."""
        return next((one.unlike_again for one in self._sources if one.unlike_again is not None), None)

    @property
    def comes_again(self) -> str | None:
        """Why elements of one of them may come again."""
        return next((one.comes_again for one in self._sources if one.comes_again is not None), None)

    def early_findings(self) -> Iterator[EarlyFinding]:
        """Yield what is wrong with any of them."""
        for source in self._sources:
            if isinstance(source, SupportsEarlyCheck):
                yield from source.early_findings()

    def get_boundedness(self) -> Boundedness:
        """Return the boundedness of the last source."""
        return self._sources[-1].get_boundedness()

    def create_enumerator(self, context: SplitEnumeratorContext[HybridSplit]) -> _Enumerator:
        """Return the enumerator of all sources."""
        return _Enumerator(self._sources, context)

    def restore_enumerator(self, context: SplitEnumeratorContext[HybridSplit], checkpoint: Any) -> _Enumerator:
        """Resume with the source that was current."""
        return _Enumerator(self._sources, context, checkpoint)

    def create_reader(self, context: SourceReaderContext) -> _Reader:
        """Return a reader of all sources."""
        return _Reader(self._sources, context)

    def restore_split(self, plain: Any) -> HybridSplit:
        """Return the split from its plain form."""
        number, inner = plain
        return HybridSplit(number, self._sources[number].restore_split(inner))


class HybridSourceBuilder:
    """Builds a `HybridSource`.

    Args:
        first_source: The first.
    """

    def __init__(self, first_source: Source[Any, Any]) -> None:
        self._sources = [first_source]

    def add_source(self, source: Source[Any, Any]) -> HybridSourceBuilder:
        """Add the source that follows."""
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(self._sources)

"""The API of custom sources: a function that runs, or splits with an enumerator and readers.

`SourceFunction` is a loop that emits elements to its context; with `CheckpointedFunction`, its position is operator state.
`Source` is Flink's split-based one (FLIP-27, `org.apache.flink.api.connector.source`):

    enumerator, once per job -- assign_split, signal_no_more_splits --> readers, one per subtask -- poll_next --> elements
                             <-- send_split_request, source events --

Splits, enumerator snapshots and source events are sent between processes and kept in checkpoints, so each is a plain value
    or has a plain form: None, bool, int, float, str, bytes, and lists, tuples and dicts of those.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from pystate.common.time import current_time_ms
from pystate.core.api.functions import Function
from pystate.core.api.type_variables import T

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pystate.core.api.output_tag import OutputTag
    from pystate.core.metrics.metric import MetricGroup

    SplitT = TypeVar("SplitT", bound="SourceSplit", default=Any)
else:
    from typing import TypeVar

    SplitT = TypeVar("SplitT", bound="SourceSplit")

__all__ = [
    "Boundedness",
    "EpochBound",
    "InputStatus",
    "ParallelSourceFunction",
    "ReaderOutput",
    "RichParallelSourceFunction",
    "RichSourceFunction",
    "Source",
    "SourceContext",
    "SourceFunction",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "StartsAt",
]


# -- functions


class SourceContext(ABC, Generic[T]):
    """The context that a `SourceFunction` emits elements to."""

    @abstractmethod
    def collect(self, element: T) -> None:
        """Emit an element without a timestamp. Blocks while the buffer of elements is full.

        Don't modify the element afterwards.
        """

    @abstractmethod
    def collect_with_timestamp(self, element: T, timestamp: int) -> None:
        """Emit an element with a timestamp, ms since 1970."""

    @abstractmethod
    def emit_watermark(self, mark: int) -> None:
        """Emit a watermark, ms since 1970: no element with an older timestamp follows."""

    @abstractmethod
    def mark_as_temporarily_idle(self) -> None:
        """Mark this subtask as idle, until its next element: downstream doesn't wait for its watermark."""

    @abstractmethod
    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """Return the lock to hold while emitting an element and updating the position: it excludes snapshots."""

    @abstractmethod
    def close(self) -> None:
        """Reject further elements."""


class SourceFunction(Function, Generic[T]):
    """A source that runs as a loop on its own thread, in one subtask.

    It is pickled with the job and runs in a slot. With `CheckpointedFunction`, `initialize_state` comes before `open`, and
    `snapshot_state` is called under the checkpoint lock; touch states there only.
    """

    @abstractmethod
    def run(self, ctx: SourceContext[T]) -> None:
        """Emit elements until there are no more, or `cancel` is called. The source ends when this returns.

        An exception fails the job, which restarts from its latest checkpoint.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Make `run` return soon; called from another thread, at the end of each attempt."""


class ParallelSourceFunction(SourceFunction[T]):
    """A source function that runs with the job's parallelism."""


class RichSourceFunction(SourceFunction[T]):
    """Exists for Flink's name: here every function has `open`, `close` and a runtime context."""


class RichParallelSourceFunction(ParallelSourceFunction[T]):
    """Exists for Flink's name; see `RichSourceFunction`."""


# -- splits


class Boundedness(Enum):
    """Whether a source is bounded."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous unbounded"


class InputStatus(Enum):
    """The result of `SourceReader.poll_next`."""

    MORE_AVAILABLE = "more available"
    NOTHING_AVAILABLE = "nothing available"
    END_OF_INPUT = "end of input"


class StartsAt(Enum):
    """Where a source starts in a job without a snapshot, which determines the guarantees for its elements."""

    THE_BEGINNING = "the beginning"
    THE_END = "the end"  # possibly for some parts only: new records from then on
    THE_GROUPS_OFFSETS = "the group's offsets"  # to which the job's checkpoints commit: after the latest complete one


class SourceSplit(ABC):
    """A part of a source that one reader reads, with the position in it."""

    @abstractmethod
    def split_id(self) -> str:
        """Return the id of the split."""

    @abstractmethod
    def to_plain(self) -> Any:
        """Return a plain value for `Source.restore_split`."""


@dataclass(frozen=True)
class EpochBound:
    """The most that an epoch of the micro-batch engine takes from one subtask of a source.

    Attributes:
        number: The number of the epoch.
        subtask: The index of the subtask.
        parallelism: The number of subtasks.
        most_bytes: The size of files as stored; 0 for no bound.
    """

    number: int
    subtask: int
    parallelism: int
    most_bytes: int


class ReaderOutput(ABC, Generic[T]):
    """The output that a reader emits elements to.

    Attributes:
        epoch: The current epoch, the same object until it ends; None without epochs.
    """

    epoch: EpochBound | None = None

    @abstractmethod
    def collect(self, record: T, timestamp: int | None = None) -> None:
        """Emit an element, with its timestamp if it has one, ms since 1970."""

    def collect_side(self, tag: OutputTag, value: Any, timestamp: int | None = None) -> None:  # noqa: B027 - for side outputs
        """Emit an element to a side output of the source, which has no watermarks; it is dropped if nobody reads that.

        It must not be an object that `collect` gets as well.
        """

    @abstractmethod
    def emit_watermark(self, watermark: int) -> None:
        """Emit a watermark, ms since 1970: no element with an older timestamp follows."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Mark this subtask as idle, until its next element: downstream doesn't wait for its watermark."""

    @abstractmethod
    def mark_active(self) -> None:
        """Mark this subtask as active again after `mark_idle`."""

    def room(self) -> int:
        """Return how many elements to emit per poll, at least one: a barrier waits for the whole poll."""
        return sys.maxsize

    def set_splits(self, splits: Mapping[str, bool]) -> None:  # noqa: B027 - for readers whose splits have event times of their own
        """Set the reader's splits: from now on the subtask's event time is that of the slowest of them.

        Without splits the subtask is idle. The `WatermarkStrategy` makes watermarks per split.

        Args:
            splits: By split id, whether to wait for the split before its first element.
        """

    def begin_split(self, split_id: str) -> None:  # noqa: B027 - the same
        """Set the split of the following elements."""


class SourceReaderContext(ABC):
    """The context of a reader."""

    @abstractmethod
    def get_index_of_subtask(self) -> int:
        """Return the index of this subtask, from 0."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Return the number of subtasks."""

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Return the metric group of the source."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Request a split from the enumerator."""

    def notify_available(self) -> None:  # noqa: B027 - for readers that wait for something
        """Have the reader polled soon, regardless of `available_at`. Thread-safe."""

    @abstractmethod
    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Send an event, a plain value, to the enumerator's `handle_source_event`."""


class SourceReader(ABC, Generic[T, SplitT]):
    """Reads the splits of one subtask. Calls are never concurrent."""

    def start(self) -> None:  # noqa: B027 - optional hook
        """Start the reader; restored splits have been added by then."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit elements without blocking: one, or all that are available, up to a few hundred."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[SplitT]:
        """Return the unfinished splits, with their positions."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Add splits to read: new or restored ones."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Called when no more splits follow: the input ends after the current ones."""

    def handle_source_events(self, source_event: Any) -> None:  # noqa: B027 - optional hook
        """Handle an event of the enumerator."""

    def available_at(self) -> int | None:
        """Return when to poll again after NOTHING_AVAILABLE, ms since 1970; None: the job decides, within a second."""
        return None

    def describe_position(self) -> str | None:
        """Describe the origin of the element that `poll_next` was emitting when it raised; None if unknown.

        It becomes part of the error message: `topic 'orders', partition 3, offset 1234`.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027 - optional hook
        """Called when a checkpoint is complete."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release the reader's resources."""


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """The context of an enumerator."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Return the number of readers."""

    @abstractmethod
    def registered_readers(self) -> list[int]:
        """Return the subtasks with registered readers."""

    @abstractmethod
    def assign_split(self, split: SplitT, subtask: int) -> None:
        """Assign a split to a reader, which owns it from now on, also in checkpoints."""

    def assign_splits(self, assignments: Mapping[int, Sequence[SplitT]]) -> None:
        """Assign splits to readers, by subtask."""
        for subtask, splits in assignments.items():
            for split in splits:
                self.assign_split(split, subtask)

    @abstractmethod
    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it gets no more splits."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send an event, a plain value, to a reader's `handle_source_events`."""


class SplitEnumerator(ABC, Generic[SplitT]):
    """Discovers splits and assigns them to readers; one per job and source. Calls are never concurrent."""

    def start(self) -> None:  # noqa: B027 - optional hook
        """Start the enumerator."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Handle a reader's request: assign a split, signal that there are no more, or answer later."""

    def add_reader(self, subtask_id: int) -> None:  # noqa: B027 - optional hook
        """Called when a reader registers in this attempt."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Return a plain value for `Source.restore_enumerator`: the unassigned splits."""

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:  # noqa: B027 - optional hook
        """Handle an event of a reader."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release the enumerator's resources."""


class Source(ABC, Generic[T, SplitT]):
    """A split-based source: `env.from_source(source, strategy, name)`. It is pickled, so it holds only settings."""

    @property
    def unlike_again(self) -> str | None:
        """Why a replay from a checkpoint may return different elements, as a clause; None if it can't."""
        return None

    @property
    def comes_again(self) -> str | None:
        """Why elements that a checkpoint counts may come again after a failure, as a clause; None if they don't."""
        return None

    @property
    def starts_at(self) -> StartsAt:
        """Where the source starts in a job without a snapshot."""
        return StartsAt.THE_BEGINNING

    @property
    def scarce_splits(self) -> str | None:
        """What its splits are called, if it is unbounded and subtasks without any are usual; None otherwise."""
        return None

    def check_start(self) -> None:  # noqa: B027 - optional hook
        """Check, before the first attempt of a job, that the source can be read.

        Raises:
            PystateError: It can't; the job fails at once.
        """

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded."""

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext[SplitT]) -> SplitEnumerator[SplitT]:
        """Return the enumerator of a job that starts without a snapshot."""

    @abstractmethod
    def restore_enumerator(self, context: SplitEnumeratorContext[SplitT], checkpoint: Any) -> SplitEnumerator[SplitT]:
        """Return the enumerator restored from a snapshot."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, SplitT]:
        """Return the reader of a subtask."""

    @abstractmethod
    def restore_split(self, plain: Any) -> SplitT:
        """Return the split from its plain form."""


class SourceClock:
    """The clock of readers with a rate limit; tests replace it."""

    def now_ms(self) -> int:
        """Return the time, ms since 1970."""
        return current_time_ms()

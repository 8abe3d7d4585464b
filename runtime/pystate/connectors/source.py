"""What a source of your own is made of: a function that runs, or splits with an enumerator and readers.

`SourceFunction` is a loop that hands elements to its context; mixed with `CheckpointedFunction`, its position is operator
state. `Source` is Flink's split-based one (FLIP-27, `org.apache.flink.api.connector.source`):

    enumerator, once per job -- assign_split, signal_no_more_splits --> readers, one per subtask -- poll_next --> elements
                             <-- send_split_request, source events --

Splits, what enumerators snapshot, and source events cross processes and are kept in checkpoints, so each is a plain value
or has a plain form: None, bool, int, float, str, bytes, and lists, tuples and dicts of those.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pystate.common.time import current_time_ms
from pystate.core.api.functions import Function

if TYPE_CHECKING:
    from pystate.core.metrics.metric import MetricGroup

T = TypeVar("T")
SplitT = TypeVar("SplitT", bound="SourceSplit")


# -- functions


class SourceContext(ABC, Generic[T]):
    """Where a `SourceFunction` hands its elements."""

    @abstractmethod
    def collect(self, element: T) -> None:
        """Hand an element on, without a time. Waits while too many elements wait to be taken.

        The element is the stream's from now on: don't change it any more.
        """

    @abstractmethod
    def collect_with_timestamp(self, element: T, timestamp: int) -> None:
        """Hand an element on with its time, ms since 1970."""

    @abstractmethod
    def emit_watermark(self, mark: int) -> None:
        """Say that no element of an older time follows, ms since 1970."""

    @abstractmethod
    def mark_as_temporarily_idle(self) -> None:
        """Let nobody wait for this subtask's watermark, until it hands on something again."""

    @abstractmethod
    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """Return what is held while an element is handed on and the position moves with it: no snapshot is taken then."""

    @abstractmethod
    def close(self) -> None:
        """Take no more elements."""


class SourceFunction(Function, Generic[T]):
    """A source as a loop on a thread of its own, in one subtask.

    It is pickled with the job and runs in a slot. With `CheckpointedFunction`, `initialize_state` comes before `open`, and
    `snapshot_state` is called under the checkpoint lock; touch states there only.
    """

    @abstractmethod
    def run(self, ctx: SourceContext[T]) -> None:
        """Hand elements on until there are no more, or `cancel` is called. To return is the source's end.

        An exception fails the job, which starts again behind its latest checkpoint.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Let `run` return soon; called from another thread, at the end of each attempt."""


class ParallelSourceFunction(SourceFunction[T]):
    """A source function that runs in as many subtasks as the job's parallelism says."""


class RichSourceFunction(SourceFunction[T]):
    """Flink's name: every function has `open`, `close` and a runtime context here."""


class RichParallelSourceFunction(ParallelSourceFunction[T]):
    """Flink's name; see `RichSourceFunction`."""


# -- splits


class Boundedness(Enum):
    """Whether a source has an end."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous unbounded"


class InputStatus(Enum):
    """What a reader says behind a poll."""

    MORE_AVAILABLE = "more available"
    NOTHING_AVAILABLE = "nothing available"
    END_OF_INPUT = "end of input"


class StartsAt(Enum):
    """Where a source begins in a job that starts from nothing, for what is promised of its elements."""

    THE_BEGINNING = "the beginning"
    THE_END = "the end"  # maybe of some parts: what is new from then on
    THE_GROUPS_OFFSETS = "the group's offsets"  # to which the job's checkpoints commit: behind the latest complete one


class SourceSplit(ABC):
    """A part of a source that one reader reads, and how far it is read."""

    @abstractmethod
    def split_id(self) -> str:
        """Return its name."""

    @abstractmethod
    def to_plain(self) -> Any:
        """Return it as a plain value, from which `Source.restore_split` makes it again."""


@dataclass(frozen=True)
class EpochBound:
    """What an epoch of the micro-batch engine takes at most of one subtask of a source.

    Attributes:
        number: Which epoch.
        subtask: Which subtask.
        parallelism: How many there are.
        most_bytes: Of files as they stand on the storage; 0 for no bound.
    """

    number: int
    subtask: int
    parallelism: int
    most_bytes: int


class ReaderOutput(ABC, Generic[T]):
    """Where a reader hands its elements.

    Attributes:
        epoch: The epoch that takes them, the same object until it ends; None where there are none.
    """

    epoch: EpochBound | None = None

    @abstractmethod
    def collect(self, record: T, timestamp: int | None = None) -> None:
        """Hand an element on, with its time where it has one, ms since 1970."""

    @abstractmethod
    def emit_watermark(self, watermark: int) -> None:
        """Say that no element of an older time follows, ms since 1970."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Let nobody wait for this subtask's watermark, until it hands on something again."""

    @abstractmethod
    def mark_active(self) -> None:
        """Have others wait for this subtask's watermark again."""

    def room(self) -> int:
        """Return how many elements are wanted at once, at least one: a barrier waits for all that comes at once."""
        return sys.maxsize

    def set_splits(self, splits: Mapping[str, bool]) -> None:  # noqa: B027 - for readers whose splits have event times of their own
        """Say which splits the reader has: from now on the subtask's event time is that of the slowest of them.

        Where there are none, nobody waits for this subtask. The watermarks are those that a `WatermarkStrategy` makes of the
        elements of each split.

        Args:
            splits: By name: whether it is waited for though none of its elements has come yet.
        """

    def begin_split(self, split_id: str) -> None:  # noqa: B027 - the same
        """Say that the elements that follow are of this split."""


class SourceReaderContext(ABC):
    """What a reader knows of where it is."""

    @abstractmethod
    def get_index_of_subtask(self) -> int:
        """Return which subtask this is, from 0."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Return where metrics are registered."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Ask the enumerator for a split."""

    def notify_available(self) -> None:  # noqa: B027 - for readers that wait for something
        """Have the reader polled soon, whatever `available_at` has said. May be called from any thread."""

    @abstractmethod
    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Send a plain value to the enumerator's `handle_source_event`."""


class SourceReader(ABC, Generic[T, SplitT]):
    """Reads the splits of one subtask. All calls come one after the other."""

    def start(self) -> None:  # noqa: B027 - optional hook
        """Begin; splits of a checkpoint have been added by then."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Hand some elements on without waiting for any: one, or as many as are at hand, up to a few hundred."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[SplitT]:
        """Return the splits that aren't read to their end, each as far as it is read."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Take splits to read: new ones, or those of a checkpoint."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Take note that none follow: behind those at hand the input ends."""

    def handle_source_events(self, source_event: Any) -> None:  # noqa: B027 - optional hook
        """Take what the enumerator has sent."""

    def available_at(self) -> int | None:
        """Return when to poll again behind NOTHING_AVAILABLE, ms since 1970; None leaves it to the job, up to a second."""
        return None

    def describe_position(self) -> str | None:
        """Say where the element comes from that `poll_next` was handing on when it raised; None where that isn't known.

        It becomes a part of the failure's place, for people: `topic 'orders', partition 3, offset 1234`.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027 - optional hook
        """Take note that a checkpoint is complete: what `snapshot_state` has returned for it counts."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Let go of what the reader holds."""


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """What an enumerator may ask and tell."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Return how many readers there will be."""

    @abstractmethod
    def registered_readers(self) -> list[int]:
        """Return the subtasks whose readers have called."""

    @abstractmethod
    def assign_split(self, split: SplitT, subtask: int) -> None:
        """Give a split to a reader. It is the reader's from now on, in checkpoints too."""

    def assign_splits(self, assignments: Mapping[int, Sequence[SplitT]]) -> None:
        """Give splits to readers, by subtask."""
        for subtask, splits in assignments.items():
            for split in splits:
                self.assign_split(split, subtask)

    @abstractmethod
    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it gets no more splits."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send a plain value to a reader's `handle_source_events`."""


class SplitEnumerator(ABC, Generic[SplitT]):
    """Finds splits and gives them to readers: one per job and source. All calls come one after the other."""

    def start(self) -> None:  # noqa: B027 - optional hook
        """Begin."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Answer a reader that asks for a split: assign one, say that there are no more, or leave it for later."""

    def add_reader(self, subtask_id: int) -> None:  # noqa: B027 - optional hook
        """Take note that a reader has called for the first time in this attempt."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Return a plain value from which `Source.restore_enumerator` goes on: the splits that no reader has got."""

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:  # noqa: B027 - optional hook
        """Take what a reader has sent."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Let go of what the enumerator holds."""


class Source(ABC, Generic[T, SplitT]):
    """A source of splits: `env.from_source(source, strategy, name)`. It travels to the slots, so it holds settings only."""

    @property
    def unlike_again(self) -> str | None:
        """Why it may go on with other elements behind a checkpoint than came there before, as a clause; None where not."""
        return None

    @property
    def starts_at(self) -> StartsAt:
        """Where it begins in a job that starts from nothing."""
        return StartsAt.THE_BEGINNING

    def check_start(self) -> None:  # noqa: B027 - optional hook
        """Look, in front of a job's first attempt, whether there is something to read.

        Raises:
            PystateError: There isn't; it fails the job at once.
        """

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether it has an end."""

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext[SplitT]) -> SplitEnumerator[SplitT]:
        """Return the enumerator of a job that starts from nothing."""

    @abstractmethod
    def restore_enumerator(self, context: SplitEnumeratorContext[SplitT], checkpoint: Any) -> SplitEnumerator[SplitT]:
        """Return the enumerator that goes on from what one has snapshotted."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, SplitT]:
        """Return the reader of a subtask."""

    @abstractmethod
    def restore_split(self, plain: Any) -> SplitT:
        """Return the split of which `to_plain` returned this."""


class SourceClock:
    """The time that readers with a rate go by; a test sets another."""

    def now_ms(self) -> int:
        """Return the time, ms since 1970."""
        return current_time_ms()

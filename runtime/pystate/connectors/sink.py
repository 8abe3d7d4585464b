"""What a sink is made of: a writer in each slot, and a committer that makes visible what a complete checkpoint holds.

Flink's Sink V2 (FLIP-191, `org.apache.flink.api.connector.sink2`), which PyFlink wraps only where it is written in Java:

    create_writer/restore_writer -> write ... -> flush -> prepare_commit -> snapshot_state     at each checkpoint
                                                              |
                                             commit, once the checkpoint is complete; again after a failure

Committables and writers' states are kept in the checkpoint, so they are plain values: None, bool, int, float, str, bytes,
and lists, tuples and dicts of those. They move freely between subtasks when a job is rescaled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from pystate.connectors.delivery_guarantee import DeliveryGuarantee

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.core.metrics.metric import MetricGroup

__all__ = [
    "CommitRequest",
    "Committer",
    "CommitterInitContext",
    "CommittingSinkWriter",
    "DeliveryGuarantee",
    "InitContext",
    "Sink",
    "SinkWriter",
    "StatefulSinkWriter",
    "SupportsCommitter",
    "SupportsWriterState",
    "WriterInitContext",
]

IN = TypeVar("IN")
CommittableT = TypeVar("CommittableT")
WriterStateT = TypeVar("WriterStateT")


class InitContext(ABC):
    """What a writer or a committer knows of where it is."""

    @abstractmethod
    def get_job_id(self) -> str:
        """Return the job's id; a job that is resumed from a savepoint has another one."""

    @abstractmethod
    def get_operator_uid(self) -> str:
        """Return the sink's uid; it stays the same over jobs that resume each other's savepoints."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return which subtask this is, from 0."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of the execution attempt, from 0."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint that the job starts from; None where it starts from nothing."""

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Return where metrics are registered."""


class WriterInitContext(InitContext):
    """What a writer is made with."""


class CommitterInitContext(InitContext):
    """What a committer is made with."""

    @abstractmethod
    def get_job_configuration(self) -> Configuration:
        """Return the job's configuration."""


class SinkWriter(ABC, Generic[IN]):
    """Takes the elements of one subtask."""

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the event time of the sink, ms since 1970."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element, ms since 1970; None where it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time by the clock, ms since 1970."""

    @abstractmethod
    def write(self, element: IN, context: SinkWriter.Context) -> None:
        """Take an element. An exception fails the job, which starts again behind its latest checkpoint."""

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Hand all elements on that are still held back; called at each checkpoint, and at the end of the input.

        A sink without a committer is at-least-once because of this: what a checkpoint holds has been written by then.

        Args:
            end_of_input: Whether no element follows in this job.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Let go of what the writer holds; what isn't committed stays as it is."""


class CommittingSinkWriter(SinkWriter[IN], Generic[IN, CommittableT]):
    """A writer that works in two phases: what it writes stays invisible until its committable is committed."""

    @abstractmethod
    def prepare_commit(self) -> Sequence[CommittableT]:
        """Return what makes visible all that was written since the last call; called behind `flush`.

        From now on it must be possible to commit it from another process on another machine, or to find that this was done.
        """


class StatefulSinkWriter(SinkWriter[IN], Generic[IN, WriterStateT]):
    """A writer that goes on behind a failure with what it was at."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[WriterStateT]:
        """Return what `restore_writer` needs; called behind `prepare_commit`. The parts are spread over the new subtasks."""


class CommitRequest(ABC, Generic[CommittableT]):
    """A committable, and what became of it. Where nothing is said of it by the end of `commit`, it is committed."""

    @abstractmethod
    def get_committable(self) -> CommittableT:
        """Return it."""

    @abstractmethod
    def get_number_of_retries(self) -> int:
        """Return how often it was tried in vain."""

    @abstractmethod
    def signal_already_committed(self) -> None:
        """Say that this was done before; it counts as committed."""

    @abstractmethod
    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Say that it can't be committed, ever, and that the job can go on without: it is logged, counted and dropped."""

    @abstractmethod
    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Say that it can't be committed, and that the job can't go on: it fails, and tries again behind its checkpoint."""

    @abstractmethod
    def retry_later(self, reason: BaseException | None = None) -> None:
        """Ask for another try a little later; `sink.committer.retries` says how many there are until the job fails.

        Args:
            reason: What people are told then (ours; Flink's takes none).
        """

    @abstractmethod
    def update_and_retry_later(self, committable: CommittableT) -> None:
        """Ask for another try with another committable: a part of this one is done."""


class Committer(ABC, Generic[CommittableT]):
    """Makes visible what complete checkpoints hold."""

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[CommittableT]]) -> None:
        """Commit, oldest checkpoint first.

        The same committable may come again, after a failure or in a job that was resumed from a savepoint: it must have no
        second effect. An exception fails the job, as an unknown failure of each of them does.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Let go of what the committer holds."""


class Sink(ABC, Generic[IN]):
    """The end of a stream: `stream.sink_to(sink)`. It travels to the slots, so it holds settings and no connections.

    By itself it is at-least-once. With `SupportsCommitter` it is exactly-once, with `SupportsWriterState` its writers
    remember.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter[IN]:
        """Return the writer of one subtask."""

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """How often an element gets out where the job takes checkpoints and its sources can be read again."""
        return DeliveryGuarantee.EXACTLY_ONCE if isinstance(self, SupportsCommitter) else DeliveryGuarantee.AT_LEAST_ONCE

    @property
    def guarantee_reason(self) -> str:
        """Why, as a clause that people see at the job's start: "committed when a checkpoint completes"."""
        if isinstance(self, SupportsCommitter):
            return "committed when a checkpoint completes"
        return "flushed at each checkpoint; what comes behind it is written again after a failure"


class SupportsWriterState(ABC, Generic[IN, WriterStateT]):
    """Mixed into a sink whose writers are `StatefulSinkWriter`s."""

    @abstractmethod
    def restore_writer(
        self, context: WriterInitContext, recovered_state: Sequence[WriterStateT]
    ) -> StatefulSinkWriter[IN, WriterStateT]:
        """Return the writer of one subtask with what fell to it of the old ones' state; may be nothing, or several parts."""


class SupportsCommitter(ABC, Generic[CommittableT]):
    """Mixed into a sink whose writers are `CommittingSinkWriter`s."""

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommittableT]:
        """Return the committer of one subtask."""

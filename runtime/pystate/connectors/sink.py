"""The sink API: a writer per subtask, and a committer that makes the output of a complete checkpoint visible.

Flink's Sink V2 (FLIP-191, `org.apache.flink.api.connector.sink2`), which PyFlink offers only for sinks in Java:

    create_writer/restore_writer -> write ... -> flush -> prepare_commit -> snapshot_state     at each checkpoint
                                                              |
                                             commit, once the checkpoint is complete; again after a failure

Committables and writer states are part of the checkpoint, so they are plain values: None, bool, int, float, str, bytes, and
    lists, tuples and dicts of those. Rescaling a job moves them between subtasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic

from pystate.common.type_info import TypeInformation
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.core.api.type_variables import IN, CommittableT, WriterStateT

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
    "JointCommitSinkWriter",
    "JointCommitter",
    "Sink",
    "SinkWriter",
    "StatefulSinkWriter",
    "SupportsCommitter",
    "SupportsWriterState",
    "WriterInitContext",
]


class InitContext(ABC):
    """The context that writers and committers are created with."""

    @abstractmethod
    def get_job_id(self) -> str:
        """Return the id of the job; a job resumed from a savepoint has a new one."""

    @abstractmethod
    def get_operator_uid(self) -> str:
        """Return the uid of the sink, which is stable across jobs that resume from savepoints."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of subtasks."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of the execution attempt, from 0."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the restored checkpoint; None if the job starts without one."""

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Return the metric group of the sink."""


class WriterInitContext(InitContext):
    """The context of a sink writer."""


class CommitterInitContext(InitContext):
    """The context of a committer."""

    @abstractmethod
    def get_job_configuration(self) -> Configuration:
        """Return the configuration of the job."""


class SinkWriter(ABC, Generic[IN]):
    """Writes the elements of one subtask."""

    class Context(ABC):
        """Information about the current element."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark of the sink, ms since 1970."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the timestamp of the element, ms since 1970; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time, ms since 1970."""

    @abstractmethod
    def write(self, element: IN, context: SinkWriter.Context) -> None:
        """Write an element. An exception fails the job, which restarts from its latest checkpoint."""

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Flush all buffered elements; called at each checkpoint and at the end of the input.

        This makes a sink without a committer at-least-once: all elements before a checkpoint have been written by then.

        Args:
            end_of_input: Whether no more elements follow in this job.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release the writer's resources; uncommitted output is left as it is."""


class CommittingSinkWriter(SinkWriter[IN], Generic[IN, CommittableT]):
    """A writer of a two-phase commit: its output is invisible until the committable is committed."""

    @abstractmethod
    def prepare_commit(self) -> Sequence[CommittableT]:
        """Return the committables of all output since the last call; called after `flush`.

        From now on a process on any machine must be able to commit them, or to find that they are committed.
        """


class JointCommitSinkWriter(CommittingSinkWriter[IN, CommittableT], Generic[IN, CommittableT]):
    """A writer whose output of a checkpoint becomes visible together with that of the other subtasks, by one commit.

    What the committer of one subtask, a `JointCommitter`, has to know of the others' output is where both find it, by the
    checkpoint's id. pystate only: Flink has a committer with parallelism 1 for that.
    """

    @abstractmethod
    def prepare_joint_commit(self, checkpoint_id: int) -> Sequence[CommittableT]:
        """Return the committables of all output since the last call; called after `flush`, at each checkpoint.

        `prepare_commit` is called in its place at the end of a job without checkpoints.
        """

    def all_inputs_ended(self) -> None:  # noqa: B027 - most commit each checkpoint
        """Be told, before the `flush` of the last checkpoint, that no subtask gets another element.

        `flush(end_of_input=True)` tells it of the writer's own subtask, perhaps some checkpoints earlier.
        """


class StatefulSinkWriter(SinkWriter[IN], Generic[IN, WriterStateT]):
    """A writer with state that is restored after a failure."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[WriterStateT]:
        """Return the state for `restore_writer`; called after `prepare_commit`. It is redistributed on restore."""


class CommitRequest(ABC, Generic[CommittableT]):
    """A committable and its outcome. Without a signal by the end of `commit`, it counts as committed."""

    @abstractmethod
    def get_committable(self) -> CommittableT:
        """Return the committable."""

    @abstractmethod
    def get_number_of_retries(self) -> int:
        """Return the number of failed tries."""

    @abstractmethod
    def signal_already_committed(self) -> None:
        """Signal that it had been committed before; it counts as committed."""

    @abstractmethod
    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Signal a permanent failure that the job can ignore: the committable is logged, counted and dropped."""

    @abstractmethod
    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Signal a failure that the job can't ignore: it fails, and retries from its checkpoint."""

    @abstractmethod
    def retry_later(self, reason: BaseException | None = None) -> None:
        """Request a retry a little later; after `sink.committer.retries` of them the job fails.

        Args:
            reason: Why, for error messages (pystate only).
        """

    @abstractmethod
    def update_and_retry_later(self, committable: CommittableT) -> None:
        """Request a retry with an updated committable, e.g. because a part is done."""


class Committer(ABC, Generic[CommittableT]):
    """Commits the committables of complete checkpoints."""

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[CommittableT]]) -> None:
        """Commit, oldest checkpoint first.

        A committable may be committed again, after a failure or in a job resumed from a savepoint: commits must be
            idempotent. An exception fails the job, like a failure with unknown reason of each committable.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release the committer's resources."""


class JointCommitter(Committer[CommittableT]):
    """Commits what the writers of all subtasks have prepared together, as `JointCommitSinkWriter` does.

    `commit` is given the committables of all complete checkpoints, and of older ones that have failed. Of a failed one only
    some subtasks may have prepared something, perhaps not the one that has the committables; a newer commit has to include
    that.
    """


class Sink(ABC, Generic[IN]):
    """A sink of a stream: `stream.sink_to(sink)`. It is pickled into the slots, so it holds settings, not connections.

    By itself it is at-least-once. With `SupportsCommitter` it is exactly-once; with `SupportsWriterState` its writers have
    state.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter[IN]:
        """Return the writer of one subtask."""

    @property
    def consumed_type(self) -> TypeInformation | None:
        """The type of the elements that it takes, for `pystate check`; None if it is left open."""
        return None

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """The delivery guarantee, in a job with checkpoints and replayable sources."""
        return DeliveryGuarantee.EXACTLY_ONCE if isinstance(self, SupportsCommitter) else DeliveryGuarantee.AT_LEAST_ONCE

    @property
    def guarantee_reason(self) -> str:
        """The reason for it, as a clause that is shown when the job starts: "committed when a checkpoint completes"."""
        if isinstance(self, SupportsCommitter):
            return "committed when a checkpoint completes"
        return "flushed at each checkpoint; what comes after it is written again after a failure"


class SupportsWriterState(ABC, Generic[IN, WriterStateT]):
    """Mixed into a sink whose writers are `StatefulSinkWriter`s."""

    @abstractmethod
    def restore_writer(
        self, context: WriterInitContext, recovered_state: Sequence[WriterStateT]
    ) -> StatefulSinkWriter[IN, WriterStateT]:
        """Return the writer of one subtask with its share of the restored state: none, one or several parts."""


class SupportsCommitter(ABC, Generic[CommittableT]):
    """Mixed into a sink whose writers are `CommittingSinkWriter`s."""

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommittableT]:
        """Return the committer of one subtask."""

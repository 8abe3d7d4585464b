"""The operator that runs a sink in a slot: its writer, its committables, and its committer.

    elements -> writer -> committables -> state, with the checkpoint -> committer, once the checkpoint is complete

The committables of a checkpoint are committed when the subtask is notified of its completion, and again whenever a job
starts from it, since it isn't known then whether they were. So no failure between `_metadata` and the commit loses anything.
Source: Flink's SinkWriterOperator and CommitterOperator, which are one here: they share a slot anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, cast

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.sink_options import SinkOptions
from pystate.common.errors import CommitError, JobGraphError, RestoreError
from pystate.common.text.bounded_text import bounded_text, first_line
from pystate.connectors.operators.committables import Committables
from pystate.connectors.sink import (
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    JointCommitSinkWriter,
    JointCommitter,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
    WriterInitContext,
)
from pystate.core.api.checkpointed import (
    BoundedOneInput,
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from pystate.core.api.functions import RuntimeContext, SinkFunction
from pystate.core.api.state import ListState, ListStateDescriptor
from pystate.core.metrics.metric import MetricGroup

WRITER_STATES = "sink-writer-states"
"""The name of the list state with what `snapshot_state` of writers returned, a part each."""

COMMITTABLES = "sink-committables"
"""The name of the list state with committables that are not committed yet: an element is all of one subtask's.

They stay together at a restore, so that what one subtask has written is committed in its order.
"""

_VERSION = 1
RETRY_DELAY_S = 1.0
"""How long a commit that asks for it is put off: Flink's."""


class SlotContext(Protocol):
    """What the operator needs from its slot, beyond the runtime context of functions."""

    def get_job_id(self) -> str:
        """Return the id of the job."""

    def get_operator_uid(self) -> str:
        """Return the uid of the sink."""

    def get_job_configuration(self) -> Configuration:
        """Return the configuration of the job."""


class SinkOperator(SinkFunction, CheckpointedFunction, CheckpointListener, BoundedOneInput):
    """Runs a `Sink`, as the function at the end of a stream.

    Args:
        sink: The sink.
        sleep: Waits this many seconds before a retry.

    Raises:
        JobGraphError: It isn't a sink.
    """

    def __init__(self, sink: Sink[Any], sleep: Callable[[float], None] = time.sleep) -> None:
        if not isinstance(sink, Sink):
            message = f"sink_to() takes a Sink, not {sink!r}."
            raise JobGraphError(message, hint="extend pystate.connectors.sink.Sink, or use add_sink() for a SinkFunction")
        self.sink = sink
        self._restored_id: int | None = None
        self._recovered: list[Any] = []
        self._writer: SinkWriter[Any] | None = None
        self._committer: Committer[Any] | None = None
        self._committables = Committables()
        self._input_ended = False
        self._sleep = sleep

    @property
    def pending_committables(self) -> int:
        """The number of uncommitted committables."""
        return len(self._committables)

    @property
    def keeps_state(self) -> bool:
        """Whether its sink has a state: of its writers, or committables."""
        return isinstance(self.sink, (SupportsWriterState, SupportsCommitter))

    # -- lifecycle

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore the state of writers, and the committables that may be uncommitted."""
        store = context.get_operator_state_store()
        self._restored_id = context.get_restored_checkpoint_id()
        if isinstance(self.sink, SupportsWriterState):
            self._writer_states = store.get_list_state(ListStateDescriptor(WRITER_STATES))
            self._recovered = [state for _, state in self._writer_states.get()]
        if isinstance(self.sink, SupportsCommitter):
            self._kept: ListState[Any] = store.get_list_state(ListStateDescriptor(COMMITTABLES))
            for _, of_subtask in self._kept.get():
                self._committables.restore(of_subtask)
        elif COMMITTABLES in store.get_registered_state_names():
            self._refuse(store.get_list_state(ListStateDescriptor(COMMITTABLES)))

    def open(self, runtime_context: RuntimeContext) -> None:
        """Commit the restored committables, and create the writer."""
        slot = cast("SlotContext", runtime_context)
        self._where = f"uid {slot.get_operator_uid()}"
        configuration = slot.get_job_configuration()
        self._retries = configuration.get(SinkOptions.COMMITTER_RETRIES)
        context = _InitContext(runtime_context, slot, self._restored_id)
        self._committables.register(context.metric_group())
        if isinstance(self.sink, SupportsCommitter):
            self._committer = self.sink.create_committer(context)
            if self._restored_id is not None:
                self._commit(None)  # all restored checkpoints are complete, whatever ids other jobs have given them
        if isinstance(self.sink, SupportsWriterState) and self._restored_id is not None:
            self._writer = self.sink.restore_writer(context, self._recovered)
        else:
            self._writer = self.sink.create_writer(context)
        self._recovered = []
        self._check(self._writer)
        self._write = cast("Callable[[Any, SinkFunction.Context], None]", self._writer.write)  # a chain passes timestamps

    def close(self) -> None:
        """Close writer and committer."""
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        try:
            if writer is not None:
                writer.close()
        finally:
            if committer is not None:
                committer.close()

    # -- elements

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Write an element."""
        self._write(value, context)

    def end_input(self) -> None:
        """Let the next flush be the last one."""
        self._input_ended = True

    def commit_rest(self) -> None:
        """Commit everything at the end of a job without checkpoints."""
        self._flush()
        if isinstance(self._writer, CommittingSinkWriter):
            self._committables.add(0, self._writer.prepare_commit())
            self._commit(None)

    # -- checkpoints

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Flush the writer, and keep its committables until the checkpoint is complete."""
        checkpoint_id, writer = context.get_checkpoint_id(), self._writer
        if context.is_last() and isinstance(writer, JointCommitSinkWriter):
            writer.all_inputs_ended()
        self._flush()
        if isinstance(writer, CommittingSinkWriter):
            if isinstance(writer, JointCommitSinkWriter):
                self._committables.add(checkpoint_id, writer.prepare_joint_commit(checkpoint_id))
            else:
                self._committables.add(checkpoint_id, writer.prepare_commit())
            of_subtask = self._committables.snapshot()
            self._kept.update([(_VERSION, of_subtask)] if of_subtask else [])
        if isinstance(writer, StatefulSinkWriter):
            self._writer_states.update([(_VERSION, state) for state in writer.snapshot_state(checkpoint_id)])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the committables of this and of older checkpoints."""
        self._commit(checkpoint_id)

    def _refuse(self, kept: ListState[Any]) -> None:
        """Reject restored committables if the sink no longer has a committer.

        Raises:
            RestoreError: There are some.
        """
        count = sum(len(committables) for _, of_subtask in kept.get() for _, committables in of_subtask)
        if count:
            message = f"The snapshot holds {count} committables, and {type(self.sink).__name__} has no committer for them."
            hint = (
                "resume with the sink that wrote them; once that job was stopped all is committed, and another sink can "
                "take its place under another uid, with --allowNonRestoredState"
            )
            raise RestoreError(message, hint=hint)

    def _flush(self) -> None:
        assert self._writer is not None  # noqa: S101 - the operator is open
        self._writer.flush(self._input_ended)

    def _commit(self, checkpoint_id: int | None) -> None:
        """Commit up to a checkpoint (None: all), with retries until nothing is left.

        Raises:
            CommitError: A commit failed.
        """
        if self._committer is None:
            return
        retries = 0
        while self._committables.commit(self._committer, checkpoint_id, self._where):
            retries += 1
            if retries > self._retries:
                why = self._committables.why
                said = "." if why is None else f": {type(why).__name__}: {first_line(why)}"
                message = bounded_text(f"The sink could not commit after {self._retries} retries{said}")
                hint = f"raise {SinkOptions.COMMITTER_RETRIES.key}, once what it writes to answers again"
                raise CommitError(message, where=self._where, hint=hint) from why
            self._sleep(RETRY_DELAY_S)

    def _check(self, writer: SinkWriter[Any]) -> None:
        """Check that the writer has the methods that the sink's interfaces require.

        Raises:
            JobGraphError: It lacks some.
        """
        pairs = ((SupportsCommitter, CommittingSinkWriter), (SupportsWriterState, StatefulSinkWriter))
        for promise, kind in pairs:
            promises, keeps = isinstance(self.sink, promise), isinstance(writer, kind)
            if promises is not keeps:
                of_sink, of_writer = ("is", "is no") if promises else ("is no", "is a")
                message = (
                    f"{type(self.sink).__name__} {of_sink} {promise.__name__}, and its writer {of_writer} {kind.__name__}."
                )
                raise JobGraphError(message, where=self._where, hint="the two belong together")
        if isinstance(writer, JointCommitSinkWriter) is not isinstance(self._committer, JointCommitter):
            message = (
                f"Of {type(writer).__name__} and {type(self._committer).__name__} one is for joint commits, one is not."
            )
            hint = "a JointCommitSinkWriter needs a JointCommitter"
            raise JobGraphError(message, where=self._where, hint=hint)


class _InitContext(WriterInitContext, CommitterInitContext):
    """The context of writer and committer."""

    def __init__(self, context: RuntimeContext, slot: SlotContext, restored_id: int | None) -> None:
        self._context = context
        self._slot = slot
        self._restored_id = restored_id

    def get_job_id(self) -> str:
        """Return the id of the job."""
        return self._slot.get_job_id()

    def get_operator_uid(self) -> str:
        """Return the uid of the sink."""
        return self._slot.get_operator_uid()

    def get_job_configuration(self) -> Configuration:
        """Return the configuration of the job."""
        return self._slot.get_job_configuration()

    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask."""
        return self._context.get_index_of_this_subtask()

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of subtasks."""
        return self._context.get_number_of_parallel_subtasks()

    def get_attempt_number(self) -> int:
        """Return the number of the execution attempt."""
        return self._context.get_attempt_number()

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the restored checkpoint."""
        return self._restored_id

    def metric_group(self) -> MetricGroup:
        """Return the metric group."""
        return self._context.get_metrics_group()

"""Rows that replace the partitions they belong to: what a job writes in all, by one commit at the end of its input.

A checkpoint can't be the unit: a partition whose rows come over two of them would be left with those of the second. So
writers hold what they have staged, in the state of checkpoints, until the inputs of all subtasks have ended. The end of
their own says too little: with checkpoints between it and the others' there is nothing yet that could be committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.errors import CommitError, ConfigurationError, CorruptSnapshotError
from pystate.common.overrides import override
from pystate.connectors.lakehouse.staging_table import OVERWRITES, DataFile
from pystate.connectors.lakehouse.table_committer import TableCommitter
from pystate.connectors.lakehouse.table_sink import TableSink
from pystate.connectors.lakehouse.table_writer import OVERWRITING_VERSION, TableWriter
from pystate.connectors.sink import CommitterInitContext, StatefulSinkWriter, SupportsWriterState, WriterInitContext

_VERSION = 1
_IN_CHECKPOINT = "in-checkpoint"
"""The entry of a staged file that a checkpoint may have."""


class OverwritingTableWriter(TableWriter, StatefulSinkWriter[Any, dict[str, Any]]):
    """A writer that hands over its files at the end of all input, all of them."""

    _held: Sequence[DataFile] = ()
    """The files that checkpoints have: a failure leaves them."""
    _ended = False
    _version = OVERWRITING_VERSION

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Take over the files of the restored checkpoint.

        Raises:
            CommitError: They are another table's.
            CorruptSnapshotError: They aren't of this version.
        """
        for state in states:
            if state.get("version") != _VERSION:
                message = (
                    f"The checkpoint has files of version {state.get('version')!r} for a table; {_VERSION} is known here."
                )
                raise CorruptSnapshotError(message, hint="go on with the pystate version that wrote it, or a newer one")
            if (state["table"], state["identity"]) != (self._table.name, self._table.identity):
                message = f"The checkpoint has files for {state['table']}, which isn't the table that the sink writes to."
                hint = "put the table back that the job wrote to; a sink under another uid starts over"
                raise CommitError(message, where=self._table.name, hint=hint)
            self._held = [*self._held, *state["files"]]

    @override
    def all_inputs_ended(self) -> None:
        self._ended = True

    @override
    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        self._hand_over()
        return super().prepare_commit()

    @override
    def prepare_joint_commit(self, checkpoint_id: int) -> Sequence[dict[str, Any]]:
        if not self._ended:
            return []
        self._hand_over()
        return super().prepare_joint_commit(checkpoint_id)

    @override
    def snapshot_state(self, checkpoint_id: int) -> Sequence[dict[str, Any]]:
        if not self._ended:
            self._held, self._files = [*self._held, *({**one, _IN_CHECKPOINT: True} for one in self._files)], []
        of = {"version": _VERSION, "table": self._table.name, "identity": self._table.identity}
        return [{**of, "files": list(self._held)}] if self._held else []

    @override
    def close(self) -> None:
        """Delete files that are in no checkpoint."""
        self._files = [one for one in self._files if not one.get(_IN_CHECKPOINT)]
        super().close()

    def _hand_over(self) -> None:
        self._files, self._held = [{**one, OVERWRITES: True} for one in (*self._held, *self._files)], []


class OverwritingTableSink(TableSink, SupportsWriterState[Any, dict[str, Any]]):
    """The base of sinks whose rows replace the partitions they belong to."""

    @property
    def guarantee_reason(self) -> str:
        """Why each row is in the table once."""
        return "one commit at the end of the input replaces the partitions that have rows, with a marker that recognises it"

    @override
    def create_writer(self, context: WriterInitContext) -> OverwritingTableWriter:
        return OverwritingTableWriter(*self.of_writer(context))

    @override
    def restore_writer(
        self, context: WriterInitContext, recovered_state: Sequence[dict[str, Any]]
    ) -> OverwritingTableWriter:
        writer = self.create_writer(context)
        writer.restore(recovered_state)
        return writer

    @override
    def create_committer(self, context: CommitterInitContext) -> TableCommitter:
        alone = context.get_number_of_parallel_subtasks() == 1
        if not alone and not is_checkpointing_enabled(context.get_job_configuration()):
            message = "Partitions are replaced by one commit of all subtasks, which is that of the last checkpoint."
            hint = "set execution.checkpointing.interval and -dir, or the sink's parallelism to 1"
            raise ConfigurationError(message, where=f"uid {context.get_operator_uid()}", hint=hint)
        return super().create_committer(context)

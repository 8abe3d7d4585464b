"""The writer of one subtask of a sink to a table: rows into staged files, and these into the checkpoint's commit."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pyarrow as pa

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind
from pystate.connectors.arrow_rows import ArrowRows
from pystate.connectors.lakehouse.staging_table import DataFile, StagingTable
from pystate.connectors.lakehouse.table_columns import fit
from pystate.connectors.lakehouse.table_upserts import DELETED, Upserts, latest
from pystate.connectors.sink import InitContext, JointCommitSinkWriter, SinkWriter, WriterInitContext

VERSION = 1
"""The format version of committables."""
OVERWRITING_VERSION = 2
"""The format version of committables whose files replace partitions: older versions of pystate would add them."""
ATTEMPT_BITS = 32
"""A serial is the attempt's number, then that of the checkpoint in these bits: it grows over the attempts of a job."""
FILES_OF_OURS = "pystate-"
"""What the names of staged files begin with."""
_ROWS_AT_ONCE = 4096
_TAKES_AWAY = RowKind.DELETE, RowKind.UPDATE_BEFORE
_SHOWN = 500


def owner_of(context: InitContext) -> str:
    """Return the name of a job's sink in markers and in the names of files."""
    of = f"{context.get_job_id()}/{context.get_operator_uid()}"
    return hashlib.sha256(of.encode()).hexdigest()[:16]


def list_name(owner: str, serial: int, part: int) -> str:
    """Return the name of the list of files that a subtask has staged for a checkpoint."""
    return f"{owner}-{serial}-{part}.files"


class TableWriter(JointCommitSinkWriter[Any, dict[str, Any]]):
    """Writes rows to data files, which become visible when their checkpoint is complete.

    Each subtask leaves a list of its files beside the table; the committable, which only subtask 0 has, says where all the
    lists are. So a checkpoint is one commit, by whichever subtask has its committable later. A list names the one before it
    that has files: if that one's checkpoint failed, the commit of a later one includes it, also where subtask 0 has never
    come to the failed checkpoint.

    Args:
        open_table: Opens the table; makes or checks it.
        rows: Makes Arrow's batches.
        most_rows: How many rows are staged at once at most.
        most_bytes: How many bytes of them, as Arrow has them in memory.
        sort_by: The columns by which the rows of a file are sorted.
        context: Of the sink.
        upserts: By what rows replace others; None for rows that are appended.

    Raises:
        JobGraphError: The rows have no such column to sort by.
    """

    _version = VERSION

    def __init__(
        self,
        open_table: Callable[[pa.Schema], StagingTable],
        rows: ArrowRows,
        most_rows: int,
        most_bytes: int,
        sort_by: Sequence[str],
        context: WriterInitContext,
        upserts: Upserts | None = None,
    ) -> None:
        check_columns(rows.schema, sort_by, upserts, f"uid {context.get_operator_uid()}")
        self._table = open_table(rows.schema)
        self._upserts = upserts
        self._deleted: list[bool] = []
        self._arrow = rows
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._sort_by = [(column, "ascending") for column in sort_by]
        self._subtask = context.get_index_of_this_subtask()
        self._parallelism = context.get_number_of_parallel_subtasks()
        self._attempt = context.get_attempt_number()
        self._owner = owner_of(context)
        self._stem = f"{FILES_OF_OURS}{self._owner}-{self._attempt}-{self._subtask}"
        self._chunk = min(_ROWS_AT_ONCE, most_rows)
        self._rows: list[Sequence[Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._count = self._bytes = 0
        self._files: list[DataFile] = []
        self._previous = -1
        """The serial of the last list that has files; -1 for none."""

    @override
    def write(self, element: Any, context: SinkWriter.Context) -> None:
        if self._upserts is not None:
            if self._upserts.is_told_again(element):
                return
            self._deleted.append(self._upserts.deletes(element))
        elif isinstance(element, Row) and element.get_row_kind() in _TAKES_AWAY:
            message = f"A row of the kind {element.get_row_kind().name} takes one away; the sink only adds rows: {element}"
            hint = "with_upsert_by(...) names the columns by which rows are found; or filter such rows"
            raise RecordError(message[:_SHOWN], where=self._table.name, hint=hint)
        self._rows.append(self._arrow.values(element))
        if len(self._rows) >= self._chunk:
            self._to_arrow()

    @override
    def flush(self, end_of_input: bool) -> None:
        self._to_arrow()
        self._stage()

    @override
    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        files, self._files = self._files, []
        return [self._committable(f"{self._owner}-{uuid.uuid4().hex}", 0, files=files)] if files else []

    @override
    def prepare_joint_commit(self, checkpoint_id: int) -> Sequence[dict[str, Any]]:
        files, serial = self._files, self._attempt << ATTEMPT_BITS | checkpoint_id
        if self._parallelism == 1:
            self._files = []
            return [self._committable(self._owner, serial, files=files)] if files else []
        name = list_name(self._owner, serial, self._subtask)
        self._table.put(name, msgpack.packb([VERSION, self._previous, files]))
        if files:
            self._files, self._previous = [], serial
        return [self._committable(self._owner, serial, parts=self._parallelism)] if self._subtask == 0 else []

    @override
    def close(self) -> None:
        """Delete files that are in no checkpoint."""
        files, self._files = self._files, []
        if files:
            self._table.remove(files)

    def _committable(self, owner: str, serial: int, **content: Any) -> dict[str, Any]:
        of = {"version": self._version, "table": self._table.name, "identity": self._table.identity}
        return {**of, "owner": owner, "serial": serial, **content}

    def _to_arrow(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        batch = self._arrow.batch(rows)
        if self._upserts is not None:
            deleted, self._deleted = self._deleted, []
            batch = pa.RecordBatch.from_arrays([*batch.columns, pa.array(deleted)], names=[*batch.schema.names, DELETED])
        self._batches.append(batch)
        self._count += batch.num_rows
        self._bytes += batch.nbytes
        if self._count >= self._most_rows or self._bytes >= self._most_bytes:
            self._stage()

    def _stage(self) -> None:
        batches, self._batches = self._batches, []
        self._count = self._bytes = 0
        if not batches:
            return
        found = pa.Table.from_batches(batches)
        if self._upserts is not None:
            last = latest(found, self._upserts.keys, self._table.name)
            rows = fit(last.drop_columns([DELETED]), self._table.schema, self._table.name)
            rows = rows.append_column(DELETED, last.column(DELETED))
            self._files += self._table.stage_upserts(rows, self._stem, self._upserts.keys)
            return
        rows = fit(found, self._table.schema, self._table.name)
        if self._sort_by:
            rows = rows.sort_by(self._sort_by)
        self._files += self._table.stage(rows, self._stem)


def check_columns(rows: pa.Schema, sort_by: Sequence[str], upserts: Upserts | None, where: str) -> None:
    """Check that rows have the columns that they are sorted by, or replace others by.

    Raises:
        JobGraphError: They have no such column to sort by.
        ConfigurationError: See `Upserts.check`.
    """
    unknown = [column for column in sort_by if column not in rows.names]
    if unknown:
        message = f"The rows have no {', '.join(unknown)} to sort by."
        raise JobGraphError(message, hint=f"there are {', '.join(rows.names)}")
    if upserts is not None:
        upserts.check(rows, where)

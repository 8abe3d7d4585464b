"""A Delta table as writers and committers see it: Parquet files beside the log, and transactions with a marker in it."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pystate.common.errors import CommitError, ConfigurationError
from pystate.common.overrides import override
from pystate.common.time import current_time_ms
from pystate.connectors.delta.delta_client import deltalake
from pystate.connectors.delta.delta_files import TableFolder
from pystate.connectors.delta.delta_values import partition_text, statistics
from pystate.connectors.lakehouse.column_types import CHANGED_HINT, check_still_fits, is_same
from pystate.connectors.lakehouse.staging_table import CommitConflictError, DataFile, StagingTable, overwrites, upserts_among
from pystate.connectors.lakehouse.table_columns import check_partition_columns, fit, with_columns
from pystate.connectors.lakehouse.table_upserts import DELETED

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import RemoveAction

_LOG = logging.getLogger(__name__)

LISTS = "_pystate"
"""The folder of lists of staged files: readers and VACUUM leave out what begins with an underscore."""
_MODE = "delta.columnMapping.mode"
_APPEND_ONLY = "delta.appendOnly"
_CONSTRAINTS = "delta.constraints."
_COMPUTED = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


class DeltaStaging(StagingTable):
    """A Delta table at the version that was the newest.

    Args:
        uri: The table.
        storage_options: How its storage is reached, as deltalake takes it.
        compression: Of Parquet files.

    Raises:
        TableNotFoundError: There is none.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str], compression: str = "snappy") -> None:
        self.name = uri
        self.table: DeltaTable = deltalake().DeltaTable(uri, storage_options=dict(storage_options) or None)
        self.folder = TableFolder(uri, storage_options)
        self._compression = compression
        self.identity = str(self.table.metadata().id)
        self.partition_by = list(self.table.metadata().partition_columns)
        self.schema = pa.schema(self.table.schema().to_arrow())
        self._columns = hashlib.sha256(self.table.schema().to_json().encode()).hexdigest()[:16]

    @override
    def stage(self, rows: pa.Table, stem: str) -> list[DataFile]:
        return [self._write(part, values, stem) for values, part in self._partitions(rows)]

    def _partitions(self, rows: pa.Table) -> list[tuple[dict[str, Any], pa.Table]]:
        """Return the rows of each partition, without its columns."""
        if not self.partition_by:
            return [({}, rows)]
        found = []
        keys = rows.select(self.partition_by).group_by(self.partition_by).aggregate([])
        for values in keys.to_pylist():
            mask = None
            for column, value in values.items():
                there = rows.column(column)
                same = (
                    pc.is_null(there)
                    if value is None
                    else pc.fill_null(pc.equal(there, pa.scalar(value, there.type)), False)
                )
                mask = same if mask is None else pc.and_(mask, same)
            found.append((values, rows.filter(mask).drop_columns(self.partition_by)))
        return found

    def _write(self, rows: pa.Table, values: Mapping[str, Any], stem: str) -> DataFile:
        name = f"{stem}-{uuid.uuid4().hex}.{self._compression}.parquet"
        content = pa.BufferOutputStream()
        pq.write_table(rows, content, compression=self._compression)
        written = content.getvalue()
        self.folder.write(name, written)
        return {
            "path": name,
            "size": written.size,
            "rows": rows.num_rows,
            "at": current_time_ms(),
            "partition": {column: partition_text(value) for column, value in values.items()},
            "stats": json.dumps(statistics(rows)),
            "columns": self._columns,
        }

    @override
    def committed(self, owner: str) -> int:
        version = self.table.transaction_version(_app(owner))
        return -1 if version is None else int(version)

    @override
    def check_staged(self, files: Sequence[DataFile]) -> None:
        try:
            check_writable(self)
        except ConfigurationError as error:
            message = f"The table has changed since the rows were staged: {error}"
            raise CommitError(message, where=self.name, hint=CHANGED_HINT) from error
        if upserts_among(files) or overwrites(files):
            self._check_replaces()
        if upserts_among(files):
            return
        for one in files:
            if set(one["partition"]) != set(self.partition_by):
                there, by = ", ".join(self.partition_by) or "nothing", ", ".join(one["partition"]) or "nothing"
                message = f"The table is partitioned by {there} now; rows were staged for one by {by}."
                raise CommitError(message, where=self.name, hint=CHANGED_HINT)
            if one.get("columns") != self._columns:
                self._check_columns(one)

    def _check_replaces(self) -> None:
        if is_append_only(self):
            message = f"The table has {_APPEND_ONLY} now, and rows were staged that replace others."
            raise CommitError(message, where=self.name, hint=f"take the property away, and resume; {CHANGED_HINT}")

    def _check_columns(self, file: DataFile) -> None:
        """Check the columns of a file by what it says itself: the table has others than when it was staged.

        Raises:
            CommitError: It doesn't fit any more.
        """
        with self.folder.open(str(file["path"])) as stream:
            there = pq.read_schema(stream)
        in_files = pa.schema([one for one in self.schema if one.name not in self.partition_by])
        check_still_fits(there, in_files, self.name, is_same)
        nulls = json.loads(file["stats"])["nullCount"]
        for field in in_files:
            if not field.nullable and there.field(field.name).nullable and nulls.get(field.name) != 0:
                message = f"The column {field.name} of the table may not be null now, and rows were staged with nulls."
                raise CommitError(message, where=self.name, hint=CHANGED_HINT)

    @override
    def commit(self, files: Sequence[DataFile], owner: str, serial: int) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        upserts = self.upserts_of(files)
        if upserts is not None:
            self._merge(*upserts, owner, serial)
            return
        adds: list[AddAction | RemoveAction] = [
            AddAction(one["path"], one["size"], one["partition"], one["at"], True, one["stats"]) for one in files
        ]
        retries = None
        if overwrites(files):
            adds += self._replaced(files)
            retries = 0  # what is replaced is to be looked at again after a commit that comes between
        transaction = Transaction(_app(owner), serial)
        marker = CommitProperties({"pystate": owner}, max_commit_retries=retries, app_transactions=[transaction])
        try:
            self.table.create_write_transaction(
                adds, "append", self.table.schema(), self.partition_by or None, commit_properties=marker
            )
        except CommitFailedError as error:
            raise CommitConflictError(str(error)) from error

    def _replaced(self, files: Sequence[DataFile]) -> list[RemoveAction]:
        """Return what removes the files that are in the partitions of these."""
        from deltalake.transaction import RemoveAction

        partitions = [one["partition"] for one in files]
        now, found = current_time_ms(), []
        wanted = ["path", "size_bytes", *(["partition"] if self.partition_by else [])]
        for one in pa.table(self.table.get_add_actions()).select(wanted).to_pylist():
            values = one.get("partition") or {}
            partition = {column: partition_text(values.get(column)) for column in self.partition_by}
            if partition in partitions:
                found.append(RemoveAction(one["path"], True, now, one["size_bytes"], partition))
        return found

    def _merge(self, rows: pa.Table, keys: Sequence[str], owner: str, serial: int) -> None:
        """Have rows replace those of their keys, with the marker in the same commit; deltalake rewrites their files."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        rows = _as_now(rows, self.schema, self.name)
        app = _app(owner)
        marker = CommitProperties(
            {"pystate": owner}, max_commit_retries=0, app_transactions=[Transaction(app, serial)]
        )  # a commit that comes between has to be looked at: it may be this one
        same = " AND ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in keys)
        values = {_quoted(name): f"s.{_quoted(name)}" for name in self.schema.names}
        deleted = f"s.{DELETED}"
        before = self.table.version()
        try:
            figures = (
                self.table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=marker)
                .when_matched_delete(deleted)
                .when_matched_update(values, f"NOT {deleted}")
                .when_not_matched_insert(values, f"NOT {deleted}")
                .execute()
            )
        except CommitFailedError as error:
            raise CommitConflictError(str(error)) from error
        gone = pc.sum(rows.column(DELETED)).as_py() or 0
        kept = figures["num_target_rows_inserted"] + figures["num_target_rows_updated"]
        if kept > rows.num_rows - gone or figures["num_target_rows_deleted"] > gone:
            _LOG.warning("%s has several rows of one %s: each of them was replaced, or deleted", self.name, ", ".join(keys))
        if self.table.version() == before:  # nothing was there to be deleted
            self.commit([], owner, serial)

    @override
    def missing(self, files: Sequence[DataFile]) -> str | None:
        return self.folder.missing([str(one["path"]) for one in files])

    @override
    def remove(self, files: Sequence[DataFile]) -> None:
        self.folder.delete([str(one["path"]) for one in files])

    @override
    def put(self, name: str, content: bytes) -> None:
        self.folder.write(f"{LISTS}/{name}", content)

    @override
    def place(self, name: str) -> str:
        return f"{LISTS}/{name}"

    @override
    def get(self, name: str) -> bytes | None:
        return self.folder.read(f"{LISTS}/{name}")

    @override
    def drop(self, names: Sequence[str]) -> None:
        self.folder.delete([f"{LISTS}/{name}" for name in names])


def make_or_check(
    uri: str,
    storage_options: Mapping[str, str],
    compression: str,
    rows: pa.Schema,
    *,
    partition_by: Sequence[str] | None,
    evolve: bool,
    properties: Mapping[str, str],
    replaces: bool = False,
    overwrites_partitions: bool = False,
) -> DeltaStaging:
    """Return a table that rows can be written to, and make it where there is none.

    Args:
        uri: The table.
        storage_options: See `DeltaStaging`.
        compression: Likewise.
        rows: The columns of the rows.
        partition_by: The columns it is partitioned by; None for any, and for none if it is made.
        evolve: Whether columns may be added.
        properties: Those of a new table.
        replaces: Whether rows replace others.
        overwrites_partitions: Whether they replace the partitions they belong to.

    Raises:
        ConfigurationError: They can't be written.
    """
    package = deltalake()
    table = _opened(uri, storage_options, compression)
    if table is None:
        strange = [column for column in partition_by or () if column not in rows.names]
        if strange:
            message = f"The rows have no {', '.join(strange)} to partition the table by."
            raise ConfigurationError(message, where=uri, hint=f"there are {', '.join(rows.names)}")
        check_partitions(rows, partition_by or (), uri)
        times = [field.name for field in rows if pa.types.is_time(field.type)]
        if times:
            message = f"A Delta table has no times of day, as in {', '.join(times)}."
            raise ConfigurationError(message, where=uri, hint="map() them to texts or numbers")
        by = list(partition_by or ()) or None
        configuration = dict(properties) or None
        try:
            package.DeltaTable.create(
                uri, rows, "ignore", by, configuration=configuration, storage_options=dict(storage_options) or None
            )
        except _of_the_program() as error:
            table = _opened(uri, storage_options, compression)
            if table is None:  # no other subtask was first
                message = f"The table can't be made: {error}"
                raise ConfigurationError(message, where=uri) from error
        else:
            table = DeltaStaging(uri, storage_options, compression)
    _check(table, partition_by)
    if overwrites_partitions and "deletionVectors" in (table.table.protocol().writer_features or ()):
        message = "The table has deletion vectors, and deltalake doesn't remove files that have one."
        raise ConfigurationError(message, where=uri, hint="replace its partitions with Spark")
    if replaces and is_append_only(table):
        message = f"The table has {_APPEND_ONLY}, and the sink is to replace rows."
        raise ConfigurationError(message, where=uri, hint="append to it, or take the property away")
    return with_columns(
        table,
        rows,
        lambda: DeltaStaging(uri, storage_options, compression),
        lambda there, added: there.table.alter.add_columns(package.Schema.from_arrow(added).fields),
        _of_the_program(),
        evolve=evolve,
    )


def _of_the_program() -> tuple[type[Exception], ...]:
    """Return the errors that another try doesn't mend, unlike those of the storage."""
    from deltalake.exceptions import DeltaError

    return DeltaError, ValueError, TypeError


def _opened(uri: str, storage_options: Mapping[str, str], compression: str) -> DeltaStaging | None:
    """Return a table; None if there is none.

    `DeltaTable.is_deltatable` would ask the storage without letting other threads run.
    """
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaStaging(uri, storage_options, compression)
    except TableNotFoundError:
        return None


def _check(table: DeltaStaging, partition_by: Sequence[str] | None) -> None:
    """Check that a table is partitioned as was asked, and files can be added to it.

    Raises:
        ConfigurationError: It isn't, or they can't.
    """
    if partition_by is not None and list(partition_by) != table.partition_by:
        there = ", ".join(table.partition_by) or "nothing"
        message = f"The table is partitioned by {there}, and not by {', '.join(partition_by) or 'nothing'}."
        raise ConfigurationError(message, where=table.name, hint="leave with_partition_by() out: the table's is taken")
    check_writable(table)


def check_partitions(columns: pa.Schema, names: Sequence[str], where: str) -> None:
    """Check that values of columns tell partitions apart, and are what deltalake reads again.

    Raises:
        ConfigurationError: They aren't: of the decimal -0.5 deltalake 1.x writes 0.-5 to the log, which has no bytes either.
    """
    check_partition_columns(columns, names, where)
    for name in names:
        of = columns.field(name).type if name in columns.names else pa.null()
        if pa.types.is_decimal(of) or pa.types.is_binary(of) or pa.types.is_large_binary(of):
            message = f"The column {name} is {of}, by which a Delta table can't be partitioned."
            raise ConfigurationError(message, where=where, hint="partition by a text or a whole number, made in map()")


def is_append_only(table: DeltaStaging) -> bool:
    """Return whether no row of a table may be replaced."""
    return bool(table.table.metadata().configuration.get(_APPEND_ONLY, "").lower() == "true")


def check_writable(table: DeltaStaging) -> None:
    """Check that files can be added to a table without what only its engine can compute.

    Raises:
        ConfigurationError: They can't.
    """
    check_partitions(table.schema, table.partition_by, table.name)
    if set(table.schema.names) <= set(table.partition_by):
        message = "The table is partitioned by all of its columns, which leaves none to write to a file."
        raise ConfigurationError(message, where=table.name, hint="leave one column out of with_partition_by()")
    configuration = table.table.metadata().configuration
    reasons = [key for key in configuration if key.startswith(_CONSTRAINTS)]
    if configuration.get(_MODE, "none") != "none":
        reasons.append(_MODE)
    for field in table.table.schema().fields:
        reasons += [f"{key} of {field.name}" for key in field.metadata if key in _COMPUTED]
    if reasons:
        message = f"The table has {', '.join(reasons)}, which a sink that adds files can't keep."
        raise ConfigurationError(message, where=table.name, hint="write to a table without, and copy from there with Spark")


def _as_now(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return rows with the columns that the table has got since they were staged."""
    return fit(rows.drop_columns([DELETED]), schema, where).append_column(DELETED, rows.column(DELETED))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _app(owner: str) -> str:
    return f"pystate-{owner}"

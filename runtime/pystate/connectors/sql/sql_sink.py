"""`SqlSink`: writes a stream to a table, or by a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.groups.sink_options import SinkOptions
from pystate.common.errors import ConfigurationError
from pystate.common.time import Duration
from pystate.connectors.client_package import client_findings
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.sink import CommitterInitContext, Sink, SinkWriter, SupportsCommitter, WriterInitContext
from pystate.connectors.sql.batch_writer import SqlBatchWriter
from pystate.connectors.sql.commit_table import COMMIT_TABLE, CommitTable
from pystate.connectors.sql.connection import NEEDED, SqlConnectionOptions
from pystate.connectors.sql.execution import SqlExecutionOptions
from pystate.connectors.sql.row_writer import RowWriter
from pystate.connectors.sql.sql_committer import SqlCommitter, SqlWriteAheadWriter
from pystate.connectors.sql.start_check import StartCheck
from pystate.connectors.sql.target import SqlTarget, StatementTarget, TableTarget
from pystate.connectors.sql.values import to_plain

if TYPE_CHECKING:
    from sqlalchemy import Engine


class SqlSink(Sink[Any], SupportsEarlyCheck):
    """Writes rows in batches: at-least-once; with a key, repeated writes leave the same table.

    Args:
        connection: How to connect to the database.
        target: What to do with elements.
        execution: How rows are batched.
    """

    def __init__(
        self, connection: SqlConnectionOptions, target: SqlTarget, execution: SqlExecutionOptions | None = None
    ) -> None:
        self.connection = connection
        self.target = target
        self.execution = execution or SqlExecutionOptions()

    @staticmethod
    def builder() -> SqlSinkBuilder:
        """Return a builder."""
        return SqlSinkBuilder()

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"{type(self).__name__}({self.target.shown()}, {self.connection!r})"

    @property
    def guarantee_reason(self) -> str:
        """Why it is at-least-once."""
        if self.target.key_places:
            return "upserts by key: rows that are written again after a failure leave the table the same"
        return "batches are flushed at each checkpoint; rows after it are written again after a failure"

    def early_findings(self) -> Iterator[EarlyFinding]:
        """Yield that SQLAlchemy isn't there, if so."""
        return client_findings("sqlalchemy", NEEDED, "sql", in_slots=True)

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of one subtask."""
        del context
        engine, password = self.connection.create_engine(), self.connection.password()
        rows = self._rows(engine)
        StartCheck(rows, self.target, None, password).look_early()
        return SqlBatchWriter(engine, rows, self.target, self.execution, password=password)

    def _rows(self, engine: Engine) -> RowWriter:
        return RowWriter(engine, self.target, self.execution.batch_size, self.connection.password())


class ExactlyOnceSqlSink(SqlSink, SupportsCommitter[dict[str, Any]]):
    """Writes the rows of a checkpoint and a marker in one transaction, once the checkpoint is complete.

    Args:
        connection: How to connect to the database.
        target: What to do with elements.
        execution: How rows are batched.
        commit_table: The name of the table of markers.
        marker_retention_ms: How long markers are kept; None for ever.
    """

    def __init__(
        self,
        connection: SqlConnectionOptions,
        target: SqlTarget,
        execution: SqlExecutionOptions | None = None,
        *,
        commit_table: str = COMMIT_TABLE,
        marker_retention_ms: int | None = None,
    ) -> None:
        super().__init__(connection, target, execution)
        self.commit_table = commit_table
        self.marker_retention_ms = marker_retention_ms
        self._markers: CommitTable | None = None

    @property
    def guarantee_reason(self) -> str:
        """Why it is exactly-once."""
        return f"rows and a marker in {self.commit_table} are one transaction, once the checkpoint is complete"

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of one subtask."""
        del context
        stamp = dict if self._markers is None else self._markers.stamp  # a committer is made before its writer
        return SqlWriteAheadWriter(self._record, stamp)

    def create_committer(self, context: CommitterInitContext) -> SqlCommitter:
        """Return the committer of one subtask.

        Raises:
            SqlError: The database rejects the login, or has no such table or column.
        """
        engine = self.connection.create_engine()
        password = self.connection.password()
        markers = self._markers = CommitTable(engine, self.commit_table, password)
        uid = context.get_operator_uid()
        rows = self._rows(engine)
        check = StartCheck(rows, self.target, markers, password)
        check.look_early()
        return SqlCommitter(
            engine,
            rows,
            markers,
            uid,
            check=check,
            keep_ms=self.marker_retention_ms,
            password=password,
            unknown=context.get_job_configuration().get(SinkOptions.UNKNOWN_COMMITS),
        )

    def _record(self, element: Any, context: SinkWriter.Context) -> Any:
        del context
        operation = self.target.operation(element)
        if operation is None:
            return None
        kind, values = operation
        return kind, [to_plain(value) for value in values]


class SqlSinkBuilder:
    """Builds a `SqlSink` from a URL, and a table with its columns or a statement."""

    def __init__(self) -> None:
        self._places: dict[str, Any] = {}
        self._table: str | None = None
        self._statement: str | None = None
        self._columns: tuple[str, ...] = ()
        self._keys: tuple[str, ...] = ()
        self._mapper: Callable[[Any], Any] | None = None
        self._delete_when: Callable[[Any], bool] | None = None
        self._guarantee: DeliveryGuarantee | None = None
        self._figures: dict[str, int] = {}
        self._commit_table = COMMIT_TABLE
        self._retention_ms: int | None = None

    def set_url(self, url: str) -> SqlSinkBuilder:
        """Set the URL of the database, of SQLAlchemy or JDBC. The program contains it, with its password."""
        self._places["url"] = url
        return self

    def set_url_variable(self, name: str) -> SqlSinkBuilder:
        """Set the environment variable with the URL, in the slots."""
        self._places["url_variable"] = name
        return self

    def set_url_file(self, path: str) -> SqlSinkBuilder:
        """Set the file with the URL, in the slots."""
        self._places["url_file"] = path
        return self

    def set_user_name(self, name: str) -> SqlSinkBuilder:
        """Set the user, instead of the URL's."""
        self._places["user_name"] = name
        return self

    def set_password(self, password: str) -> SqlSinkBuilder:
        """Set the password, instead of the URL's."""
        self._places["password"] = password
        return self

    def set_engine_options(self, **options: Any) -> SqlSinkBuilder:
        """Set more arguments of SQLAlchemy's `create_engine`."""
        self._places["engine_options"] = options
        return self

    def set_table(self, table: str) -> SqlSinkBuilder:
        """Set the table, optionally as `schema.table`."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> SqlSinkBuilder:
        """Set the columns: names of row fields, keys of dicts, or the order of tuples."""
        self._columns = columns
        return self

    def set_upsert_keys(self, *columns: str) -> SqlSinkBuilder:
        """Set the columns of a primary key or a unique index: a row replaces the one with the same key."""
        self._keys = columns
        return self

    def set_statement(self, sql: str) -> SqlSinkBuilder:
        """Set a statement instead of a table, with a `?` for each value."""
        self._statement = sql
        return self

    def set_mapper(self, mapper: Callable[[Any], Any]) -> SqlSinkBuilder:
        """Set the function that makes a row, dict or tuple from an element; None skips it."""
        self._mapper = mapper
        return self

    def set_delete_when(self, predicate: Callable[[Any], bool]) -> SqlSinkBuilder:
        """Set which elements delete the row of their key. Those with RowKind.DELETE always do."""
        self._delete_when = predicate
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> SqlSinkBuilder:
        """Set the delivery guarantee: exactly-once by default, unless there is a key."""
        self._guarantee = guarantee
        return self

    def set_batch_size(self, rows: int) -> SqlSinkBuilder:
        """Set the number of rows per batch; 5000 by default."""
        self._figures["batch_size"] = rows
        return self

    def set_batch_interval_ms(self, interval_ms: int) -> SqlSinkBuilder:
        """Set how long a batch waits for more rows; 0: until it is full or a checkpoint comes. Not for exactly-once."""
        self._figures["batch_interval_ms"] = interval_ms
        return self

    def set_max_retries(self, retries: int) -> SqlSinkBuilder:
        """Set how often a batch is retried; 3 by default. For commits see `sink.committer.retries`."""
        self._figures["max_retries"] = retries
        return self

    def set_commit_table(self, name: str) -> SqlSinkBuilder:
        """Set the name of the table of markers."""
        self._commit_table = name
        return self

    def set_marker_retention(self, retention: Duration | None) -> SqlSinkBuilder:
        """Set how long markers are kept. Older savepoints are refused: nobody knows whether their rows were written."""
        self._retention_ms = None if retention is None else retention.to_millis()
        return self

    def build(self) -> SqlSink:
        """Return the sink.

        Raises:
            ConfigurationError: A setting is missing, or settings conflict.
        """
        target = self._target()
        connection, execution = SqlConnectionOptions(**self._places), SqlExecutionOptions(**self._figures)
        guarantee = self._guarantee
        if guarantee is None:
            guarantee = DeliveryGuarantee.AT_LEAST_ONCE if self._keys else DeliveryGuarantee.EXACTLY_ONCE
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            names = {"commit_table": self._commit_table, "marker_retention_ms": self._retention_ms}
            return ExactlyOnceSqlSink(connection, target, execution, **names)  # type: ignore[arg-type]
        return SqlSink(connection, target, execution)

    def _target(self) -> SqlTarget:
        if (self._table is None) is (self._statement is None):
            message = "A SQL sink writes to a table, or runs a statement; one of these."
            raise ConfigurationError(message, hint="set_table(...), or set_statement(...)")
        if self._table is not None:
            return TableTarget(self._table, self._columns, self._keys, self._mapper, self._delete_when)
        assert self._statement is not None  # noqa: S101 - one of the two
        if self._keys or self._delete_when is not None:
            message = "A statement of one's own says itself what it does with keys."
            raise ConfigurationError(message, hint="set_table(...) has set_upsert_keys and set_delete_when")
        return StatementTarget(self._statement, self._mapper, self._columns)

"""A bounded source of a query's rows, split by ranges of a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError
from pystate.common.row import Row
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.connectors.client_package import client_findings
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
from pystate.connectors.splits_on_request import RequestingReader, SplitsOnRequest
from pystate.connectors.sql.connection import NEEDED, SqlConnectionOptions
from pystate.connectors.sql.sql_errors import SqlError, words_of
from pystate.connectors.sql.sql_parameters import count_parameters, driver_sql

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_BRACKETS = re.compile(r"\([^()]*\)")
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)


class SqlSplit(SourceSplit):
    """A part of the rows, with the position in it.

    Attributes:
        parameters: The parameters of the query: first and last number of the range, inclusive; none for all rows.
        read: The number of rows read.
    """

    def __init__(self, parameters: tuple[int, ...], read: int = 0) -> None:
        self.parameters = parameters
        self.read = read

    def split_id(self) -> str:
        """Return the id of the split."""
        return "-".join(map(str, self.parameters)) or "all"

    def to_plain(self) -> list[Any]:
        """Return range and position in plain form."""
        return [list(self.parameters), self.read]


class SqlSource(Source[Row, SqlSplit], SupportsEarlyCheck):
    """Reads the rows of a query once.

    A query with two question marks is run for each split, with the first and the last number of its range:
    `SELECT id, name FROM users WHERE id BETWEEN ? AND ? ORDER BY id`. After a failure a partly read split is queried again,
    and the rows that were read are skipped: ORDER BY makes these the same ones, unless the table changes.

    Args:
        connection: How to connect to the database.
        query: The SELECT.
        type_info: The type of the rows: their fields in the order of the query's columns.
        partition_bounds: The first and the last number; None if the query has no question marks.
        partitions: The number of splits of the range.
        fetch_size: The number of rows to fetch at once.

    Raises:
        ConfigurationError: Query and range don't match, or the type isn't a ROW.
    """

    def __init__(
        self,
        connection: SqlConnectionOptions,
        query: str,
        type_info: TypeInformation,
        *,
        partition_bounds: tuple[int, int] | None = None,
        partitions: int = 1,
        fetch_size: int = 500,
    ) -> None:
        self.connection = connection
        self.query = query
        self.produced_type = type_info
        self.fetch_size = fetch_size
        self._bounds = partition_bounds
        self._partitions = partitions
        if type_info.kind is not TypeKind.ROW:
            message = f"SqlSource reads rows, not {type_info.name}."
            raise ConfigurationError(message, hint='Types.ROW_NAMED(["id", ...], [Types.LONG(), ...])')
        wanted = 0 if partition_bounds is None else 2
        found = count_parameters(query, connection.url().get_backend_name()) if connection.has_url else wanted
        if found != wanted or partitions < 1 or fetch_size < 1 or (partitions > 1 and partition_bounds is None):
            message = f"The query has {found} question marks, where {wanted} are needed, for {partitions} partitions."
            hint = "WHERE id BETWEEN ? AND ?, and partition_bounds=(first, last)"
            raise ConfigurationError(message, where=query, hint=hint)

    @property
    def unlike_again(self) -> str | None:
        """Why a split may resume with different rows: without an order, the skipped rows may not be those that were read."""
        return None if _is_ordered(self.query) else "its query has no ORDER BY: after a failure other rows may be skipped"

    def early_findings(self) -> Iterator[EarlyFinding]:
        """Yield that SQLAlchemy isn't there, if so."""
        return client_findings("sqlalchemy", NEEDED, "sql", in_slots=True)

    def splits(self) -> list[SqlSplit]:
        """Return the splits, ordered by range."""
        if self._bounds is None:
            return [SqlSplit(())]
        first, last = self._bounds
        size = max(0, last - first + 1)
        count = min(self._partitions, size)
        bounds = [first + size * part // count for part in range(count + 1)] if count else []
        return [SqlSplit((bounds[part], bounds[part + 1] - 1)) for part in range(count)]

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[SqlSplit]) -> SplitEnumerator[SqlSplit]:
        """Return the enumerator."""
        return SplitsOnRequest(context, self.splits())

    def restore_enumerator(self, context: SplitEnumeratorContext[SqlSplit], checkpoint: Any) -> SplitEnumerator[SqlSplit]:
        """Resume with the unassigned splits."""
        return SplitsOnRequest(context, [self.restore_split(plain) for plain in checkpoint])

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Row, SqlSplit]:
        """Return a reader, which connects when it gets a split."""
        return SqlReader(self, context)

    def restore_split(self, plain: Any) -> SqlSplit:
        """Return the split from its plain form."""
        parameters, read = plain
        return SqlSplit(tuple(map(int, parameters)), int(read))


def _is_ordered(query: str) -> bool:
    inner = 1
    while inner:  # an ORDER BY in brackets doesn't order the whole result
        query, inner = _BRACKETS.subn(" ", query)
    return _ORDERED.search(query) is not None


class SqlReader(RequestingReader[Row, SqlSplit]):
    """Reads splits in order, and requests the next when it has none.

    Args:
        source: The source.
        context: Of the reader.
    """

    def __init__(self, source: SqlSource, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._names = source.produced_type.row_names
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._rows: Iterator[Sequence[Any]] | None = None

    def poll_next(self, output: ReaderOutput[Row]) -> InputStatus:
        """Emit the next rows of the first split.

        Raises:
            SqlError: The database rejects the query, or doesn't answer.
        """
        if not self._splits:
            return self._without_split()
        from sqlalchemy import exc

        split = self._splits[0]
        try:
            part = next(self._parts(split), None)
        except exc.SQLAlchemyError as error:
            message = f"The query could not be run: {words_of(error, self._source.connection.password())}"
            raise SqlError(message, where=self._source.query, hint="try it by hand") from None
        if part is None:
            self._splits.popleft()
            self._end_query()
            return InputStatus.MORE_AVAILABLE
        for values in part:
            output.collect(Row.of_fields(self._names, [_plain(value) for value in values]))
        split.read += len(part)
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[SqlSplit]:
        """Return the current splits, with their positions."""
        del checkpoint_id
        return [SqlSplit(split.parameters, split.read) for split in self._splits]

    def close(self) -> None:
        """Close the connection."""
        self._end_query()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _parts(self, split: SqlSplit) -> Iterator[Sequence[Any]]:
        if self._rows is None:
            self._rows = self._ask(split)
        return self._rows

    def _ask(self, split: SqlSplit) -> Iterator[Sequence[Any]]:
        """Return the unread rows of a split, in chunks."""
        source = self._source
        if self._engine is None:
            self._engine = source.connection.create_engine()
        dialect, size = self._engine.dialect, source.fetch_size
        connection = self._engine.connect().execution_options(stream_results=True, max_row_buffer=size)
        self._connection = connection
        found = connection.exec_driver_sql(driver_sql(source.query, dialect.name, dialect.paramstyle), split.parameters)
        columns = len(found.keys())
        if columns != len(self._names):
            message = f"The query has {columns} columns, and the type {len(self._names)} fields."
            raise SqlError(message, where=source.query, hint="name the columns in the order of the type's fields")
        skip = split.read
        while skip and (rows := found.fetchmany(min(skip, size))):
            skip -= len(rows)
        return iter(found.partitions(size))

    def _end_query(self) -> None:
        connection, self._connection, self._rows = self._connection, None, None
        if connection is not None:
            connection.close()


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value

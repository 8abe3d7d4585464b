"""Writes rows within a transaction, in batches, and finds the row that a database rejected."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pystate.common.errors import ConfigurationError
from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, shown_row, words_of
from pystate.connectors.sql.sql_parameters import count_parameters, driver_sql
from pystate.connectors.sql.target import Operation, SqlTarget, TableTarget
from pystate.connectors.sql.values import for_driver

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_MOST_PARAMETERS = 48
"""The most parameters of one statement with several rows: psycopg keeps what it made of a statement with at most 50."""

_LONGEST_STATEMENT = 4000
"""In characters, for the same reason."""

_SAME_KEY = "21000"
"""PostgreSQL's SQLSTATE of an INSERT that would change a row twice."""


class RowWriter:
    """Writes the rows of one target.

    Args:
        engine: The SQLAlchemy engine.
        target: What to do with rows.
        batch_size: The number of rows per batch.
        password: Hidden in errors.
    """

    def __init__(self, engine: Engine, target: SqlTarget, batch_size: int, password: str | None) -> None:
        self.engine = engine
        self._target = target
        self._batch_size = batch_size
        self._password = password
        self._backend = engine.dialect.name
        quote = engine.dialect.identifier_preparer.quote
        sql = target.write_sql(self._backend, quote)
        self._parameters = count_parameters(sql, self._backend)
        self._write = driver_sql(sql, self._backend, engine.dialect.paramstyle)
        self._at_once, self._write_many = self._many(quote) if self._backend == "postgresql" else (0, "")
        deletes = target.delete_sql(quote) if target.key_places else ""
        self._delete = driver_sql(deletes, self._backend, engine.dialect.paramstyle)

    def write(self, connection: Connection, operations: Iterable[Operation]) -> int:
        """Write rows in order, within the transaction of a connection; return their number.

        Raises:
            SqlError: A row has too many values, or too few.
        """
        count = 0
        for batch in _batches(operations, self._batch_size):
            for deletes, run in itertools.groupby(batch, key=lambda operation: operation[0]):
                rows = [for_driver(values, self._backend) for _, values in run]
                if deletes:
                    connection.exec_driver_sql(self._delete, rows)
                else:
                    self._check(rows[0])
                    self._insert(connection, rows)
            count += len(batch)
        return count

    def check(self) -> None:
        """Have the database plan the statement, which checks that table, columns and permissions exist.

        A user's statement may be of a kind that can't be planned, and isn't checked.
        """
        if not isinstance(self._target, TableTarget):
            return
        nothing = (None,) * self._parameters
        with self.engine.connect() as connection:
            connection.exec_driver_sql(f"EXPLAIN {self._write}", nothing)
            if self._delete:
                connection.exec_driver_sql(f"EXPLAIN {self._delete}", (None,) * len(self._target.key_places))
            connection.rollback()

    def refusal(self, error: BaseException, operations: Iterable[Operation]) -> SqlError:
        """Return the message for a failure, with the row if it concerns one.

        Args:
            error: The error of SQLAlchemy; the transaction is rolled back.
            operations: All rows of that transaction, in order.
        """
        message = f"The database refused {{}} of {self._target.shown()}: {words_of(error, self._password)}"
        hint = "mend the statement, the table, or the rights of the user"
        row = None
        if failure_of(error) is Failure.ROW:
            row = self._refused_row(operations)
            hint = "mend the rows before the sink, or the table; the job goes on from its latest checkpoint"
        what = "rows" if row is None else f"the row {shown_row(row)}"
        return SqlError(message.format(what), hint=hint)

    def _refused_row(self, operations: Iterable[Operation]) -> list[object] | None:
        """Write the rows one by one, in a transaction that is rolled back, until one is rejected."""
        from sqlalchemy import exc

        last: Operation | None = None
        with self.engine.connect() as connection:
            try:
                if self._backend == "sqlite":
                    connection.exec_driver_sql("BEGIN")  # otherwise the end of a savepoint would commit
                for batch in _batches(operations, self._batch_size):
                    with_point = connection.begin_nested()
                    try:
                        last = None
                        self.write(connection, batch)
                        with_point.commit()
                    except exc.DBAPIError:
                        with_point.rollback()
                        for last in batch:
                            self.write(connection, [last])
            except exc.DBAPIError:
                return last[1] if last is not None else None
            finally:
                connection.rollback()
        return None

    def _many(self, quote: Callable[[str], str]) -> tuple[int, str]:
        """Return the number of rows per statement, and the statement: in PostgreSQL this is faster than one by one."""
        count = _MOST_PARAMETERS // max(1, self._parameters)
        while count > 1:
            sql = self._target.rows_sql(self._backend, quote, count)
            if sql is None:
                break
            made = driver_sql(sql, self._backend, self.engine.dialect.paramstyle)
            if len(made) <= _LONGEST_STATEMENT:
                return count, made
            count //= 2
        return 0, ""

    def _insert(self, connection: Connection, rows: list[tuple[object, ...]]) -> None:
        """Write rows: several per statement, and the rest one by one."""
        count = self._at_once
        whole = len(rows) - len(rows) % count if count else 0
        if whole and not self._insert_many(connection, rows[:whole]):
            whole = 0
        if rows[whole:]:
            connection.exec_driver_sql(self._write, rows[whole:])

    def _insert_many(self, connection: Connection, rows: list[tuple[object, ...]]) -> bool:
        """Write rows; return False, and write nothing, if a statement had two rows of one key, which isn't allowed."""
        from sqlalchemy import exc

        starts = range(0, len(rows), self._at_once)
        statements = [tuple(itertools.chain.from_iterable(rows[start : start + self._at_once])) for start in starts]
        if not self._target.key_places:
            connection.exec_driver_sql(self._write_many, statements)
            return True
        point = connection.begin_nested()
        try:
            connection.exec_driver_sql(self._write_many, statements)
        except exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _SAME_KEY:
                raise
            point.rollback()
            return False
        point.commit()
        return True

    def _check(self, row: tuple[object, ...]) -> None:
        if len(row) != self._parameters:
            message = f"{self._target.shown()}: {self._parameters} parameters, but a row has {len(row)} values."
            raise SqlError(message, where=shown_row(row), hint="a question mark for each value")


def check_tables(engine: Engine, table: str) -> None:
    """Reject MySQL tables whose rows can't be rolled back.

    Raises:
        ConfigurationError: A table has such an engine.
    """
    if engine.dialect.name not in ("mysql", "mariadb"):
        return
    schema, _, name = table.rpartition(".")
    sql = "SELECT engine FROM information_schema.tables WHERE table_name = %s AND table_schema = COALESCE(%s, DATABASE())"
    with engine.connect() as connection:
        kind = connection.exec_driver_sql(sql, (name, schema or None)).scalar()
    if kind is not None and kind.upper() in ("MYISAM", "ARIA", "MEMORY", "CSV", "ARCHIVE"):
        message = f"Table {table} is kept by {kind}, which has no transactions: nothing is exactly-once there."
        raise ConfigurationError(message, where=table, hint=f"ALTER TABLE {table} ENGINE=InnoDB")


def _batches(operations: Iterable[Operation], size: int) -> Iterator[list[Operation]]:
    rest = iter(operations)
    while batch := list(itertools.islice(rest, size)):
        yield batch

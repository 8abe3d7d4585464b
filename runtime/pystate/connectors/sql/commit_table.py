"""The table of commit markers: a row per committable, written in the same transaction as its rows."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

COMMIT_TABLE = "pystate_commits"
"""Its name, unless the program says otherwise."""


class CommitTable:
    """The table of markers.

    Args:
        engine: The SQLAlchemy engine.
        name: The name of the table, optionally as `schema.table`.
        password: Hidden in errors.
    """

    def __init__(self, engine: Engine, name: str, password: str | None) -> None:
        self._engine = engine
        self._name = name
        self._password = password
        self._table = _table(name)
        self._is_there = False

    def create(self) -> None:
        """Create the table if it doesn't exist. Others may do so concurrently.

        Raises:
            SqlError: It doesn't exist and can't be created.
        """
        if self._is_there:
            return
        from sqlalchemy import exc

        try:
            if not self._exists():
                self._table.create(self._engine)
        except exc.DBAPIError as error:
            if failure_of(error) in (Failure.LOST, Failure.CONFLICT):
                raise
            if not self._exists():  # somebody else was first
                message = f"The table of markers can't be made: {words_of(error, self._password)}"
                hint = "have it made as docs/databases.md shows, or let the user make tables"
                raise SqlError(message, where=self._name, hint=hint) from None
        self._is_there = True

    def insert(self, connection: Connection, commit_id: str, operator_uid: str, rows: int) -> None:
        """Write a marker. It waits for a concurrent transaction that writes the same one, and fails if that commits."""
        values = {"commit_id": commit_id, "operator_uid": operator_uid[:255], "row_count": rows, "committed_at": _now()}
        connection.execute(self._table.insert().values(values))

    def check(self) -> None:
        """Write a marker and roll it back, to check the permission that commits need."""
        with self._engine.connect() as connection:
            self.insert(connection, uuid.uuid4().hex, "", 0)
            connection.rollback()

    def holds(self, commit_id: str) -> bool:
        """Return whether a marker is committed."""
        from sqlalchemy import select

        column = self._table.c.commit_id
        with self._engine.connect() as connection:
            return connection.execute(select(column).where(column == commit_id)).first() is not None

    def delete_old(self, operator_uid: str, keep_ms: int) -> int:
        """Delete markers of a sink older than this many milliseconds; return their number."""
        of_sink = self._table.c.operator_uid == operator_uid[:255]
        old = self._table.c.committed_at < _now() - keep_ms
        with self._engine.begin() as connection:
            return connection.execute(self._table.delete().where(of_sink, old)).rowcount

    def _exists(self) -> bool:
        from sqlalchemy import inspect

        return inspect(self._engine).has_table(self._table.name, schema=self._table.schema)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _table(name: str) -> Table:
    from sqlalchemy import BigInteger, Column, MetaData, String, Table

    schema, _, own = name.rpartition(".")
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
    return Table(
        own,
        MetaData(),
        Column("commit_id", String(32), primary_key=True),
        Column("operator_uid", String(255), nullable=False),
        Column("row_count", BigInteger, nullable=False),
        Column("committed_at", BigInteger, nullable=False),
        schema=schema or None,
        **options,
    )

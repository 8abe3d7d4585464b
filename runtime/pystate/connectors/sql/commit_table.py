"""The table of commit markers: a row per committable, written in the same transaction as its rows.

A missing marker proves nothing in a table that was dropped and made again, or whose old markers were deleted. So the table
has a row with a random *generation*, which goes with it, and a row for each sink with how far its markers were deleted. A
committable names the generation of the table when it was made (`stamp`).
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

COMMIT_TABLE = "pystate_commits"
"""Its name, unless the program says otherwise."""
_GENERATION = "pystate-generation"
_FOREVER = 1 << 62
"""Not deleted with what is old."""
_CLOCK_SLACK_MS = 60 * 60 * 1000
"""By how much the clocks of slots may differ."""
_UNKNOWN_HINT = (
    "look whether the newest rows are in the database, and say it: pystate run -s ... "
    "-D pystate.sink.unknown-commits=WRITE (they aren't) or LEAVE_OUT (they are); and let the table of markers be"
)


class UnknownCommitError(SqlError):
    """It can't be known whether a committable is in the database."""


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
        self._generation: str | None = None

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
        self._generation = self._begun()
        self._is_there = True

    def stamp(self) -> dict[str, Any]:
        """Return what a new committable carries: its time, and the table's generation, None until the database is asked."""
        return {"table": self._name, "generation": self._generation, "prepared-at": _now()}

    def insert(self, connection: Connection, commit_id: str, operator_uid: str, rows: int) -> None:
        """Write a marker. It waits for a concurrent transaction that writes the same one, and fails if that commits."""
        self._insert(connection, commit_id, operator_uid[:255], rows, _now())

    def check_absence(self, connection: Connection, operator_uid: str, stamp: Mapping[str, Any]) -> None:
        """Check that a committable has no marker only if it isn't committed. Those of older versions can't be checked.

        Args:
            connection: Of the transaction that has written its marker.
            operator_uid: The uid of the sink.
            stamp: That of the committable.

        Raises:
            UnknownCommitError: The table isn't the one of that time, or such old markers were deleted.
        """
        from sqlalchemy import select

        if stamp.get("generation") is None:
            return
        columns, cleaned = self._table.c, _cleaned_id(operator_uid)
        wanted = select(columns.commit_id, columns.operator_uid, columns.committed_at)
        found = connection.execute(wanted.where(columns.commit_id.in_([_GENERATION, cleaned])))
        rows = {commit_id: (uid, at) for commit_id, uid, at in found}
        if rows.get(_GENERATION, ("", 0))[0] != stamp["generation"]:
            message = (
                f"The table of markers, {self._name!r}, isn't the one that a committable was made for ({stamp['table']!r}): "
                "it was dropped and made again, or is that of another database."
            )
        elif stamp["prepared-at"] <= rows.get(cleaned, ("", 0))[1]:
            message = f"The table of markers, {self._name!r}, has dropped those of the time when a committable was made."
        else:
            return
        message += " Nobody knows any more whether its rows were written."
        raise UnknownCommitError(message, where=f"uid {operator_uid}", hint=_UNKNOWN_HINT)

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
        until = _now() - keep_ms
        old = self._table.c.committed_at < until
        with self._engine.begin() as connection:
            self._note_cleaned(connection, operator_uid, until + min(_CLOCK_SLACK_MS, keep_ms // 2))
            return connection.execute(self._table.delete().where(of_sink, old)).rowcount

    def _note_cleaned(self, connection: Connection, operator_uid: str, until: int) -> None:
        """Keep that the markers of committables that were made up to a time may be deleted."""
        columns, cleaned = self._table.c, _cleaned_id(operator_uid)
        its = columns.commit_id == cleaned
        connection.execute(self._table.delete().where(its, columns.committed_at < until))  # the right to update isn't needed
        if connection.execute(self._table.select().where(its)).first() is None:
            self._insert(connection, cleaned, "", 0, until)

    def _begun(self) -> str | None:
        """Return the generation of the table, which the first caller begins."""
        from sqlalchemy import exc

        known = self._known_generation()
        if known is not None:
            return known
        try:
            with self._engine.begin() as connection:
                self._insert(connection, _GENERATION, uuid.uuid4().hex, 0, _FOREVER)
        except exc.IntegrityError:  # somebody else was first
            pass
        return self._known_generation()

    def _known_generation(self) -> str | None:
        from sqlalchemy import select

        wanted = select(self._table.c.operator_uid).where(self._table.c.commit_id == _GENERATION)
        with self._engine.connect() as connection:
            return connection.execute(wanted).scalar()

    def _insert(self, connection: Connection, commit_id: str, operator_uid: str, rows: int, at: int) -> None:
        values = {"commit_id": commit_id, "operator_uid": operator_uid, "row_count": rows, "committed_at": at}
        connection.execute(self._table.insert().values(values))

    def _exists(self) -> bool:
        from sqlalchemy import inspect

        return inspect(self._engine).has_table(self._table.name, schema=self._table.schema)


def _cleaned_id(operator_uid: str) -> str:
    return "cleaned-" + hashlib.sha256(operator_uid.encode()).hexdigest()[:24]


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

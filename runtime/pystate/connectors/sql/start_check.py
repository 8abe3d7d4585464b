"""Checks at the start that rows can be written: finds a wrong password, a missing table or permission early."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pystate.connectors.sql.commit_table import CommitTable
from pystate.connectors.sql.row_writer import RowWriter, check_tables
from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of
from pystate.connectors.sql.target import SqlTarget, TableTarget

_LOG = logging.getLogger(__name__)


class StartCheck:
    """A check of a database that runs once. If the database is unavailable, it is repeated before the first commit.

    Args:
        rows: Writes rows.
        target: What to do with them.
        markers: The table of commit markers; None without one.
        password: Hidden in errors.
    """

    def __init__(self, rows: RowWriter, target: SqlTarget, markers: CommitTable | None, password: str | None) -> None:
        self._rows = rows
        self._target = target
        self._markers = markers
        self._password = password
        self._passed = False

    def look(self) -> None:
        """Run the check, unless it passed before.

        Raises:
            SqlError: Rows can't be written.
            ConfigurationError: The table's rows can't be rolled back.
            SQLAlchemyError: The database is unavailable, or there is a conflict with others.
        """
        from sqlalchemy import exc

        if self._passed:
            return
        looks: list[Callable[[], None]] = []
        if self._markers is not None:
            looks += [self._check_tables, self._markers.create, self._markers.check]
        try:
            for look in [*looks, self._rows.check]:
                look()
        except exc.SQLAlchemyError as error:
            if _passes(error):
                raise
            message = f"{self._target.shown()} can't be written: {words_of(error, self._password)}"
            hint = "mend the URL, the password, the names of table and columns, or the rights of the user"
            raise SqlError(message, hint=hint) from None
        self._passed = True

    def look_early(self) -> None:
        """Run the check before there is something to write; an unavailable database is tolerated.

        Raises:
            SqlError: Rows can't be written.
            ConfigurationError: The table's rows can't be rolled back.
        """
        from sqlalchemy import exc

        try:
            self.look()
        except exc.SQLAlchemyError as error:
            _LOG.warning("The database does not answer yet: %s", words_of(error, self._password))

    def _check_tables(self) -> None:
        if isinstance(self._target, TableTarget):
            check_tables(self._rows.engine, self._target.table)


def _passes(error: BaseException) -> bool:
    """Return whether a failure is transient."""
    return failure_of(error) in (Failure.LOST, Failure.CONFLICT)

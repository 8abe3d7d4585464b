"""Looks, before rows come, whether they can be written: a wrong password, a table or a right that is missing shows then."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pystate.connectors.sql.commit_table import CommitTable
from pystate.connectors.sql.row_writer import RowWriter, check_tables
from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of
from pystate.connectors.sql.target import SqlTarget, TableTarget

_LOG = logging.getLogger(__name__)


class StartCheck:
    """What is asked of a database once. One that is away is asked again in front of the first commit.

    Args:
        rows: Writes rows.
        target: What is done with them.
        markers: Which committables are done; None where nobody asks.
        password: What no error may show.
    """

    def __init__(self, rows: RowWriter, target: SqlTarget, markers: CommitTable | None, password: str | None) -> None:
        self._rows = rows
        self._target = target
        self._markers = markers
        self._password = password
        self._passed = False

    def look(self) -> None:
        """Look, unless all was well before.

        Raises:
            SqlError: It can't be written.
            ConfigurationError: The table's rows can't be rolled back.
            SQLAlchemyError: The database is away, or somebody is in the way.
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
        """Look before there is something to write; a database that is away may be there by then.

        Raises:
            SqlError: It can't be written.
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
    """Whether the same may go well later."""
    return failure_of(error) in (Failure.LOST, Failure.CONFLICT)

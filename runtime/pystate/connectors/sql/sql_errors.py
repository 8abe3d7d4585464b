"""Classifies database errors: what to do after a failed transaction."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from pystate.common.configuration.sensitive_keys import HIDDEN
from pystate.common.errors import PystateError
from pystate.common.text.bounded_text import bounded_text

_MOST_SHOWN = 500
"""Characters of a database's own words, and of a row, that an error repeats."""


class SqlError(PystateError):
    """Raised when a database rejects a request or can't be reached."""


class Failure(Enum):
    """How to proceed after a failed transaction."""

    CONFLICT = "another transaction was in the way: deadlock, serialization, lock"
    LOST = "there is no connection; whether a COMMIT was done is unknown"
    ROW = "a row is refused, and will be again"
    OTHER = "what was asked can't be done: password, database, table, column, rights"


# SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html: all classes, and what differs within one
_OTHER_CLASSES = """
00 01 02 03 09 0A 0B 0F 0L 0P 0Z 10 20 21 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 42 54 55 57 F0 HV XX
"""
STATES = {
    **dict.fromkeys(_OTHER_CLASSES.split(), Failure.OTHER),
    **dict.fromkeys(("22", "23", "44", "P0"), Failure.ROW),  # P0: raised by a trigger
    **dict.fromkeys(("40", "72", "55006", "55P03", "57014"), Failure.CONFLICT),
    **dict.fromkeys(("08", "53", "58", "57P", "25006", "25P03", "25P04"), Failure.LOST),  # 25006: what was the primary
}
"""By SQLSTATE, its class, or what begins so."""
# Errors of SQLAlchemy itself, not of a database.
_OF_SQLALCHEMY_LOST = "DisconnectionError InvalidatePoolError PendingRollbackError ResourceClosedError TimeoutError"
_OF_SQLALCHEMY_OTHER = """
AmbiguousColumnError AmbiguousForeignKeysError ArgumentError AwaitRequired CircularDependencyError CompileError
ConstraintColumnNotFoundError DuplicateColumnError IdentifierError IllegalStateChangeError InvalidRequestError
MissingGreenlet MultipleResultsFound NoDBAPILoaded NoForeignKeysError NoInspectionAvailable NoReferenceError
NoReferencedColumnError NoReferencedTableError NoResultFound NoSuchColumnError NoSuchModuleError NoSuchTableError
ObjectNotExecutableError StatementError UnboundExecutionError UnreflectableTableError UnsupportedCompilationError
"""
EXCEPTIONS = {
    **dict.fromkeys(_OF_SQLALCHEMY_LOST.split(), Failure.LOST),
    **dict.fromkeys(_OF_SQLALCHEMY_OTHER.split(), Failure.OTHER),
}
"""By the name of SQLAlchemy's exception; those of databases are told by what the database says."""
# https://mariadb.com/docs/server/reference/error-codes
_CONFLICT_NUMBERS = {1205, 1213, 1020, 3572}
_LOST_NUMBERS = {1040, 1053, 1077, 1152, 1184, 1203, 1317, 1927, 2002, 2003, 2006, 2013, 2014, 2055}


# PostgreSQL's client has no SQLSTATE for errors while connecting, so these are its messages for the classes 28 and 3D
# (src/backend/libpq/auth.c, utils/init/postinit.c; libpq's fe-auth.c). Unknown errors are retried.
_REFUSED_WORDS = re.compile(
    r"FATAL: +(?:password authentication failed|.* authentication failed|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r"|(?:database|role) .* does not exist|role .* is not permitted to log in|permission denied for database"
    r"|database .* is not currently accepting connections)"
    r"|no password supplied|server does not support SSL, but SSL was required"
)


def failure_of(error: BaseException) -> Failure:
    """Return the class of an exception of SQLAlchemy."""
    from sqlalchemy import exc

    if not isinstance(error, exc.DBAPIError):
        if isinstance(error, ConnectionError):
            return Failure.LOST
        return next(
            (EXCEPTIONS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in EXCEPTIONS), Failure.OTHER
        )
    original: Any = error.orig
    state = getattr(original, "sqlstate", None)
    if isinstance(state, str):
        return _of_state(state, error)
    found = original.args[0] if getattr(original, "args", ()) else None
    number = found if isinstance(found, int) else None
    if number is not None:
        if number in _CONFLICT_NUMBERS:
            return Failure.CONFLICT
        if number in _LOST_NUMBERS:
            return Failure.LOST
    text = str(original).lower()
    if "database is locked" in text or "database table is locked" in text or "database is busy" in text:
        return Failure.CONFLICT  # SQLite
    return _of_class(error, number)


def _of_state(state: str, error: Any) -> Failure:
    for length in (5, 3, 2):
        failure = STATES.get(state[:length])
        if failure not in (None, Failure.OTHER):
            return failure
    return Failure.LOST if error.connection_invalidated else Failure.OTHER


def _of_class(error: Any, number: Any) -> Failure:
    from sqlalchemy import exc

    if error.connection_invalidated:
        return Failure.LOST
    if isinstance(error, (exc.IntegrityError, exc.DataError)):
        return Failure.ROW
    if isinstance(error, exc.OperationalError) and number is None and not _of_sqlite(error):
        # psycopg has no SQLSTATE if it found no server, or if the server rejects logins
        return Failure.OTHER if _REFUSED_WORDS.search(str(error.orig)) else Failure.LOST
    return Failure.OTHER


def _of_sqlite(error: Any) -> bool:
    return type(error.orig).__module__ == "sqlite3"


def words_of(error: BaseException, password: str | None = None) -> str:
    """Return a database's message in one bounded line, without parameters and password."""
    original = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(original).splitlines() if line.strip()]
    text = " ".join(lines[:4]) or type(original).__name__
    return bounded_text(without_password(text, password), _MOST_SHOWN).replace("\n", " ")


def without_password(text: str, password: str | None) -> str:
    """Return a text with a password hidden, also in URL encoding."""
    if not password:
        return text
    from urllib.parse import quote, quote_plus

    for form in {password, quote(password, safe=""), quote_plus(password)}:
        text = text.replace(form, HIDDEN)
    return text


def shown_row(values: Any) -> str:
    """Return a row as text for errors."""
    return bounded_text(repr(tuple(values)), _MOST_SHOWN).replace("\n", " ")

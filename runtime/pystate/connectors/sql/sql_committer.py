"""The exactly-once committer: writes rows and the marker of their committable in one transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.groups.sink_options import UnknownCommits
from pystate.common.errors import CommitError
from pystate.connectors.sink import CommitRequest, SinkWriter
from pystate.connectors.sql.commit_table import CommitTable, UnknownCommitError
from pystate.connectors.sql.row_writer import RowWriter
from pystate.connectors.sql.sql_errors import Failure, failure_of, words_of
from pystate.connectors.sql.start_check import StartCheck
from pystate.connectors.sql.target import Operation
from pystate.connectors.sql.values import from_plain
from pystate.connectors.write_ahead import WriteAheadCommitter, WriteAheadWriter, records_of, settle_unknown

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_LOG = logging.getLogger(__name__)
_CLEANING_INTERVAL_S = 600.0
_MARKERS = "markers"


class SqlWriteAheadWriter(WriteAheadWriter[Any]):
    """Buffers the rows of a checkpoint until their commit.

    Args:
        to_record: Makes a record from an element.
        stamp: Returns the stamp of a new committable, see `CommitTable`.
    """

    def __init__(self, to_record: Callable[[Any, SinkWriter.Context], Any], stamp: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__(to_record)
        self._stamp = stamp

    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        """Return all records since the last call."""
        return [{**committable, _MARKERS: dict(self._stamp())} for committable in super().prepare_commit()]


class SqlCommitter(WriteAheadCommitter):
    """Writes the rows of a committable exactly once.

    The marker is written first: two committers of a committable then wait for each other at its primary key, even if one of
        them is a session that still runs in the server after its client died. The second one writes nothing.

    Args:
        engine: The SQLAlchemy engine.
        rows: Writes rows.
        markers: The table of commit markers.
        operator_uid: The uid of the sink.
        check: Run before the first commit, to check that commits are possible.
        keep_ms: How long markers are kept; None for ever.
        password: Hidden in logs.
        unknown: How to treat committables when it can't be known whether they are in the database.
    """

    def __init__(
        self,
        engine: Engine,
        rows: RowWriter,
        markers: CommitTable,
        operator_uid: str,
        *,
        check: StartCheck,
        keep_ms: int | None,
        password: str | None,
        unknown: UnknownCommits = UnknownCommits.FAIL,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._markers = markers
        self._uid = operator_uid
        self._check = check
        self._keep_ms = keep_ms
        self._cleaned = -_CLEANING_INTERVAL_S
        self._password = password
        self._unknown = unknown

    def write_once(self, commit_id: str, records: Iterator[Any], request: CommitRequest[dict[str, Any]]) -> bool:
        """Write the marker and the rows; nothing if the marker exists."""
        from sqlalchemy import exc

        committable = request.get_committable()
        has_marker = False
        try:
            self._check.look()
            with self._engine.begin() as connection:
                self._markers.insert(connection, commit_id, self._uid, committable["records"])
                has_marker = True
                self._check_absence(connection, committable.get(_MARKERS) or {})
                self._rows.write(connection, _operations(records))
        except UnknownCommitError as error:
            return settle_unknown(request, error, self._unknown)
        except exc.SQLAlchemyError as error:
            return self._failed(error, commit_id, request, has_marker=has_marker)
        self._clean()
        return False

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    def _check_absence(self, connection: Connection, stamp: Mapping[str, Any]) -> None:
        try:
            self._markers.check_absence(connection, self._uid, stamp)
        except UnknownCommitError as error:
            if self._unknown is not UnknownCommits.WRITE:
                raise
            _LOG.warning("Rows are written though nobody knows whether they were: %s", error)

    def _failed(self, error: Exception, commit_id: str, request: CommitRequest[dict[str, Any]], *, has_marker: bool) -> bool:
        """Signal the outcome of a transaction that was rolled back, or whose COMMIT got no answer; see `write_once`."""
        failure = failure_of(error)
        if failure in (Failure.CONFLICT, Failure.LOST):
            # a COMMIT that succeeded nevertheless is found by its marker
            said = words_of(error, self._password)
            _LOG.warning("A commit is tried again: %s (%s)", said, failure.name)
            request.retry_later(CommitError(said))
            return True
        if failure is Failure.ROW and not has_marker:
            known = self._is_committed(commit_id)
            if known is None:
                request.retry_later(CommitError("whether a commit was done could not be looked up"))
                return True
            if known:
                request.signal_already_committed()
                return False
        rows = _operations(records_of(request.get_committable()))
        request.signal_failed_with_unknown_reason(self._rows.refusal(error, rows))
        return False

    def _is_committed(self, commit_id: str) -> bool | None:
        """Return whether a marker exists; None if the database doesn't answer."""
        from sqlalchemy import exc

        try:
            return self._markers.holds(commit_id)
        except exc.SQLAlchemyError:
            _LOG.warning("A marker could not be looked up.")
            return None

    def _clean(self) -> None:
        if self._keep_ms is None or time.monotonic() - self._cleaned < _CLEANING_INTERVAL_S:
            return
        from sqlalchemy import exc

        self._cleaned = time.monotonic()
        try:
            self._markers.delete_old(self._uid, self._keep_ms)
        except exc.SQLAlchemyError as error:  # it is retried later, and nothing depends on it
            _LOG.warning("Old markers could not be deleted: %s", words_of(error, self._password))


def _operations(records: Iterator[Any]) -> Iterator[Operation]:
    for deletes, values in records:
        yield deletes, from_plain(values)

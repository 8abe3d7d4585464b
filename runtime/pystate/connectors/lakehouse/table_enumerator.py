"""Finds the data files of a table, version by version, and assigns each to one reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pystate.common.errors import ConfigurationError, RestoreError
from pystate.common.time import current_time_ms
from pystate.connectors.lakehouse.source_table import NOTHING, ChangeKind, HistoryGoneError, SourceTable
from pystate.connectors.lakehouse.table_columns import check_readable
from pystate.connectors.lakehouse.table_source_settings import StartKind, TableSourceSettings
from pystate.connectors.lakehouse.table_split import VERSION, TableSplit, check_version
from pystate.connectors.source import SplitEnumerator, SplitEnumeratorContext

AGAIN = "again"
"""The event that tells a reader to ask soon: there are files for others, which fetch them in the next epoch."""
_MOST_WAITING = 1000
"""When no more versions are looked at, until readers have taken files: a job that was down long finds many."""

_OPENED_EACH = 20
"""The number of looks after which the table is opened in any case: a later one under its name may have fewer versions."""


class TableEnumerator(SplitEnumerator[TableSplit]):
    """The enumerator of a source of a table.

    Args:
        context: Of the enumerator.
        open_table: Opens the table as it is now.
        settings: Of the source.
        rows: The columns to read.
        checkpoint: What `snapshot_state` returned; None in a job that starts without a snapshot.
        clock: Returns the time, ms since 1970.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[TableSplit],
        open_table: Callable[[], SourceTable],
        settings: TableSourceSettings,
        rows: pa.Schema,
        checkpoint: Any = None,
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        self._context = context
        self._open = open_table
        self._settings = settings
        self._rows = rows
        self._clock = clock
        self._identity: str | None = None
        self._position = NOTHING
        self._waiting: deque[TableSplit] = deque()
        self._asking: dict[int, None] = {}  # readers without a file, in the order in which they have asked
        self._served: set[int] = set()  # have been assigned a file since their last request
        self._look_at = 0
        self._table: SourceTable | None = None
        self._looks = -1  # the first one after a restore opens the table
        if checkpoint is not None:
            head, waiting = checkpoint
            check_version(head)
            _, identity, position = head
            self._identity, self._position = str(identity), int(position)
            self._waiting.extend(map(TableSplit.of, waiting))

    def start(self) -> None:
        """Find the files to begin with; in a restored job see that the table is the one that was read.

        Raises:
            ConfigurationError: The version to begin with isn't there, or the table lacks a column.
            RestoreError: It is another table.
        """
        table = self._table = self._open()
        if self._identity is None:
            check_readable(self._rows, columns_to_read(table, self._settings), table.name)
            self._identity = table.identity
            self._begin(table)
        self._check(table)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Assign the oldest file to the reader that has waited longest; readers of a followed table ask again and again."""
        del requester_hostname
        if subtask_id in self._served:
            self._served.discard(subtask_id)
        else:
            self._asking.setdefault(subtask_id)
        if not self._waiting and self._settings.follows and self._clock() >= self._look_at:
            self._look()
        others = False
        while self._waiting and self._asking:
            reader = next(iter(self._asking))
            del self._asking[reader]
            self._context.assign_split(self._waiting.popleft(), reader)
            if reader != subtask_id:
                self._served.add(reader)
                others = True
        if not self._settings.follows and subtask_id in self._asking:
            self._context.signal_no_more_splits(subtask_id)
        elif others:
            self._context.send_event_to_source_reader(subtask_id, AGAIN)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the table, the version up to which its files are found, and the unassigned files."""
        del checkpoint_id
        return [[VERSION, self._identity, self._position], [split.to_plain() for split in self._waiting]]

    def _begin(self, table: SourceTable) -> None:
        of = self._settings
        if of.start is StartKind.EARLIEST:
            self._position = table.before_earliest()
        elif of.start is StartKind.LATEST:
            self._position = table.newest
        elif not of.follows or of.start is StartKind.SCAN:
            self._position = _scanned(table, of)
            if self._position != NOTHING:
                self._waiting.extend(TableSplit(self._position, file) for file in table.files(self._position))
        elif of.start is StartKind.VERSION:
            self._position = table.before(of.version)
        else:
            self._position = table.at(of.timestamp_ms - 1)

    def _check(self, table: SourceTable) -> None:
        """Check that a table is the one that was read, and a followed one has the columns still.

        Raises:
            RestoreError: It is another one.
            ConfigurationError: A column is gone, or has another type.
        """
        if table.identity != self._identity:
            message = f"The table {table.name} is another one than that which the job has read."
            hint = "put the old one back, or give the source another uid (--allowNonRestoredState) to read the new one"
            raise RestoreError(message, where=table.name, hint=hint)
        if self._settings.follows:
            check_readable(self._rows, table.schema, table.name)

    def _look(self) -> None:
        """Find the files of new versions.

        Raises:
            ConfigurationError: A version isn't one that only adds rows, versions are gone, or a column has changed.
        """
        self._look_at = self._clock() + self._settings.interval_ms
        self._looks += 1
        if self._looks % _OPENED_EACH and self._table is not None and not self._table.may_have_news(self._position):
            return
        table = self._table = self._open()
        self._check(table)
        if table.newest == self._position:
            return
        try:
            for change in table.changes(self._position):
                if change.kind is ChangeKind.ADDS:
                    self._waiting.extend(TableSplit(change.version, file) for file in change.files)
                elif change.kind not in self._settings.skips:
                    raise self._refusal(table, change.version, change.kind)
                self._position = change.version
                if len(self._waiting) >= _MOST_WAITING:
                    self._look_at = 0
                    break
        except HistoryGoneError as error:
            hint = "give the source another uid (--allowNonRestoredState) to start over; keep more history"
            raise ConfigurationError(str(error), where=table.name, hint=hint) from error

    def _refusal(self, table: SourceTable, version: int, kind: ChangeKind) -> ConfigurationError:
        message = f"Version {version} of the table {kind.value}; a source that follows a table reads what is added."
        hint = f"{self._settings.skip_hint[kind]} leaves such versions out, with the rows that they add"
        return ConfigurationError(message, where=table.name, hint=hint)


def columns_to_read(table: SourceTable, of: TableSourceSettings) -> pa.Schema:
    """Return the columns that a source begins with: those of the version that it reads.

    Raises:
        ConfigurationError: The version isn't there.
    """
    version = NOTHING if of.follows else _scanned(table, of)
    return table.schema if version == NOTHING else table.columns(version)


def _scanned(table: SourceTable, of: TableSourceSettings) -> int:
    """Return the version that is read as it is."""
    if of.start is StartKind.VERSION:
        return of.version
    return table.at(of.timestamp_ms) if of.start is StartKind.TIMESTAMP else table.newest

"""Reads the data files of a table in one subtask, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pystate.common.errors import RecordError
from pystate.common.time import current_time_ms
from pystate.connectors.arrow_rows import ArrowRows
from pystate.connectors.lakehouse.source_table import SourceTable
from pystate.connectors.lakehouse.table_columns import read_as
from pystate.connectors.lakehouse.table_enumerator import AGAIN
from pystate.connectors.lakehouse.table_source_settings import TableSourceSettings
from pystate.connectors.lakehouse.table_split import TableSplit
from pystate.connectors.poll_size import PollSize
from pystate.connectors.source import InputStatus, ReaderOutput, SourceReader, SourceReaderContext

_MOST_AT_ONCE = 500
_SOON_MS = 50
_BOUNDED_PAUSE_MS = 1000
_LONGEST_SLEEP_MS = 60_000


class TableReader(SourceReader[Any, TableSplit]):
    """The reader of a source of a table.

    Args:
        context: Of the reader.
        open_table: Opens the table as it is now.
        settings: Of the source.
        rows: The columns to read.
        clock: Returns the time, ms since 1970.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        open_table: Callable[[], SourceTable],
        settings: TableSourceSettings,
        rows: ArrowRows,
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        self._context = context
        self._open = open_table
        self._arrow = rows
        self._pause_ms = settings.interval_ms if settings.follows else _BOUNDED_PAUSE_MS
        self._clock = clock
        self._table: SourceTable | None = None
        self._splits: deque[TableSplit] = deque()
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self._ask_at = 0
        self._no_more = False
        self._is_woken = False  # by epochs, which ask all readers
        self._size = PollSize(_MOST_AT_ONCE)
        self._failed_at: str | None = None

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Emit the next rows of the first file."""
        self._is_woken = output.epoch is not None and self._context.get_index_of_subtask() > 0
        if not self._splits:
            if self._no_more:
                return InputStatus.END_OF_INPUT
            if self._clock() >= self._ask_at:
                self._ask_at = self._clock() + self._pause_ms
                self._context.send_split_request()
            return InputStatus.NOTHING_AVAILABLE
        split = self._splits[0]
        elements = self._next(split, min(self._size.count, output.room()))
        if elements is None:
            self._splits.popleft()
            self._end_file()
            return InputStatus.MORE_AVAILABLE
        try:
            self._size.emit(elements, output.collect)
        except Exception:
            number = split.read + self._size.failed_at
            self._failed_at = f"row {number} of {split.file['path']}, version {split.version} of the table"
            raise
        split.read += len(elements)
        return InputStatus.MORE_AVAILABLE

    def describe_position(self) -> str | None:
        """Return the file, and which of its rows can't be emitted."""
        return self._failed_at

    def available_at(self) -> int | None:
        """Return when to ask for another file: on the micro-batch engine the first subtask asks for all."""
        if self._splits:
            return self._clock()
        return self._clock() + _LONGEST_SLEEP_MS if self._is_woken else self._ask_at

    def snapshot_state(self, checkpoint_id: int) -> list[TableSplit]:
        """Return the files that aren't fully read, with their positions."""
        del checkpoint_id
        return [TableSplit(split.version, split.file, split.read) for split in self._splits]

    def add_splits(self, splits: Sequence[TableSplit]) -> None:
        """Add files to read."""
        self._splits.extend(splits)
        self._ask_at = 0

    def notify_no_more_splits(self) -> None:
        """End the input after the current files."""
        self._no_more = True

    def handle_source_events(self, source_event: Any) -> None:
        """Ask again soon: an epoch is needed in which other readers fetch their files."""
        if source_event == AGAIN:
            self._ask_at = self._clock() + _SOON_MS

    def close(self) -> None:
        """Close the file."""
        self._end_file()

    def _next(self, split: TableSplit, most: int) -> list[Any] | None:
        """Return the next rows of a file; None at its end.

        Raises:
            RecordError: It can't be read.
        """
        try:
            if self._batches is None:
                if self._table is None:
                    self._table = self._open()
                self._batches = self._table.batches(split.file, self._arrow.schema.names, split.read)
            while self._rest is None or not self._rest.num_rows:
                self._rest = next(self._batches, None)
                if self._rest is None:
                    return None
        except FileNotFoundError as error:
            message = f"The file {split.file['path']} of version {split.version} is gone, and wasn't read to its end"
            hint = "somebody has cleaned the table (VACUUM, expire_snapshots): keep files longer than the job may be down"
            raise RecordError(message, hint=hint) from error
        except (OSError, EOFError, ValueError) as error:
            message = f"The file {split.file['path']} of version {split.version} can't be read: {error}"
            raise RecordError(message, hint="see that the table can be read by its own library") from error
        now, self._rest = self._rest.slice(0, most), self._rest.slice(most)
        return self._arrow.elements(read_as(now, self._arrow.schema, str(split.file["path"])))

    def _end_file(self) -> None:
        batches, self._batches = self._batches, None
        self._rest = None
        if batches is not None and hasattr(batches, "close"):
            batches.close()

"""The at-least-once writer: writes rows in batches, and flushes at each checkpoint."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pystate.connectors.sink import SinkWriter
from pystate.connectors.sql.execution import SqlExecutionOptions
from pystate.connectors.sql.row_writer import RowWriter
from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of
from pystate.connectors.sql.target import Operation, SqlTarget

if TYPE_CHECKING:
    from sqlalchemy import Engine

_LOG = logging.getLogger(__name__)
_FIRST_DELAY_S = 0.2
_CLOSE_TIMEOUT_S = 10.0


class SqlBatchWriter(SinkWriter[Any]):
    """Writes batches, each in a transaction.

    Of rows with the same key in a batch, only the last one is written.

    Args:
        engine: The SQLAlchemy engine.
        rows: Writes rows.
        target: What to do with elements.
        execution: Batch size, batch interval and retries.
        password: Hidden in logs.
        sleep: Waits this many seconds before a retry.
    """

    def __init__(
        self,
        engine: Engine,
        rows: RowWriter,
        target: SqlTarget,
        execution: SqlExecutionOptions,
        *,
        password: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._target = target
        self._execution = execution
        self._password = password
        self._sleep = sleep
        self._kept: dict[Any, Operation] = {}
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if execution.batch_interval_ms > 0:
            self._thread = threading.Thread(target=self._flush_by_clock, name="sql-sink", daemon=True)
            self._thread.start()

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer an element, and write the batch when it is full."""
        del context
        operation = self._target.operation(element)
        if operation is None:
            return
        with self._lock:
            self._raise_error()
            key = self._key(operation)
            self._kept.pop(key, None)  # the later one goes last
            self._kept[key] = operation
            if len(self._kept) >= self._execution.batch_size:
                self._write_batch()

    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Write the buffered rows."""
        del end_of_input
        with self._lock:
            self._raise_error()
            self._write_batch()

    def close(self) -> None:
        """Drop rows that are in no checkpoint."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)
        self._engine.dispose()

    def _key(self, operation: Operation) -> Any:
        places = self._target.key_places
        if not places:
            return len(self._kept)
        deletes, values = operation
        key = tuple(values) if deletes else tuple(values[place] for place in places)
        try:
            hash(key)
        except TypeError:
            return repr(key)
        return key

    def _write_batch(self) -> None:
        """Write the buffered rows, with retries after conflicts with others.

        Raises:
            SqlError: They can't be written.
        """
        from sqlalchemy import exc

        operations = list(self._kept.values())
        tries = 0
        while operations:
            try:
                with self._engine.begin() as connection:
                    self._rows.write(connection, operations)
                break
            except exc.SQLAlchemyError as error:
                if failure_of(error) not in (Failure.CONFLICT, Failure.LOST):
                    raise self._rows.refusal(error, operations) from None
                tries += 1
                if tries > self._execution.max_retries:
                    message = f"{self._target.shown()} could not be written: {words_of(error, self._password)}"
                    hint = "see whether the database answers; set_max_retries(...) says how often a batch is tried"
                    raise SqlError(message, hint=hint) from None
                _LOG.warning("A batch is tried again: %s", words_of(error, self._password))
                self._sleep(_FIRST_DELAY_S * tries)
        self._kept.clear()

    def _flush_by_clock(self) -> None:
        while not self._closed.wait(self._execution.batch_interval_ms / 1000):
            with self._lock:
                try:
                    if self._error is None:
                        self._write_batch()
                except BaseException as error:  # noqa: BLE001 - the task's thread raises it
                    self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

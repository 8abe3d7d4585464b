"""Calls the program's functions that take DataFrames, in an engine without epochs, with the rows since the last call.

After a failure, rows after the latest checkpoint are delivered again, possibly grouped with other rows. A checkpoint is
complete when all rows before its barriers have been handed over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from pystate.common.errors import ControlError, PystateError
from pystate.common.user_code.user_frames import user_stack_trace
from pystate.runtime.execution.frame_sink_failure import failure_of_frame_sink
from pystate.runtime.plan.channels import SubtaskId
from pystate.runtime.plan.job_plan import JobPlan, SinkPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_ROWS = 100_000
"""The number of rows that may wait for a function; beyond it the sending subtasks wait."""

_Fail = Callable[[PystateError, str], None]


class FrameSinks:
    """The sinks of one attempt that take DataFrames.

    Args:
        spark: The Spark session.
        plan: The job's plan.
        interval_s: The minimum time between two calls of a function.
        sinks: The job's sinks that take DataFrames.
        fail: Receives the error that a function raised.
    """

    def __init__(self, spark: SparkSession, plan: JobPlan, sinks: list[SinkPlan], interval_s: float, fail: _Fail) -> None:
        self._spark = spark
        self._interval_s = interval_s
        self._fail = fail
        self._schemas = {(sink.task_uid, sink.tag): plan.task(sink.task_uid).output(sink.tag).schema() for sink in sinks}
        self._sinks = {(sink.task_uid, sink.tag): sink for sink in sinks}
        self._waiting: dict[SubtaskId, list[pa.RecordBatch]] = {key: [] for key in self._sinks}
        self._changed = threading.Condition()
        self._rows = 0
        self._taken = 0  # batches that have been received
        self._handed_over = 0  # the number of them that have been handed over
        self._over = False
        self._calls = 0
        self._thread = threading.Thread(target=self._run, name="frame-sinks", daemon=True)

    def start(self) -> None:
        """Start to call the functions."""
        if self._sinks:
            self._thread.start()

    def knows(self, uid: str, tag: int) -> bool:
        """Whether an output of a task is for such a function."""
        return (uid, tag) in self._sinks

    def put(self, uid: str, tag: int, data: bytes) -> None:
        """Accept rows; waits while too many are buffered.

        Raises:
            ControlError: The attempt is over.
        """
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), self._schemas[uid, tag])
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._rows < MOST_ROWS)
            if self._over:
                message = "The attempt is over."
                raise ControlError(message)
            self._waiting[uid, tag].append(batch)
            self._rows += batch.num_rows
            self._taken += 1
            self._changed.notify_all()

    def mark(self) -> Callable[[], bool]:
        """Return a function that tells whether everything received so far has been handed over."""
        with self._changed:
            taken = self._taken
        return lambda: self._handed_over >= taken

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything received has been handed over; return whether it has."""
        done = self.mark()
        with self._changed:
            return self._changed.wait_for(lambda: self._over or done(), timeout_s) and done()

    def close(self) -> None:
        """Stop calling functions."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._rows)
                if self._over:
                    return
                taken, self._rows, count = self._waiting, 0, self._taken
                self._waiting = {key: [] for key in self._sinks}
                self._changed.notify_all()
            number = self._calls
            self._calls += 1
            for key, batches in taken.items():
                if batches and not self._call(self._sinks[key], self._frame(key, batches), number):
                    return
            with self._changed:
                self._handed_over = count
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._over, self._interval_s)

    def _frame(self, key: tuple[str, int], batches: list[pa.RecordBatch]) -> DataFrame:
        schema: Any = self._schemas[key]
        table = pa.Table.from_batches(batches, schema)
        return self._spark.createDataFrame(table, from_arrow_schema(schema))

    def _call(self, sink: SinkPlan, frame: DataFrame, number: int) -> bool:
        function = sink.step.function
        assert function is not None  # noqa: S101 - for_each_batch() takes no less
        try:
            function(frame, number)
        except BaseException as error:  # sys.exit() would end only the thread
            self._fail(failure_of_frame_sink(sink.step, error), user_stack_trace(error))
            return False
        return True

"""A rehearsal of a job's first epoch: what is slow about that one alone is done before it begins.

Spark compiles the plan of an epoch, loads classes for it, and starts Python workers, which import what their stages need.
On a busy machine that takes the better part of a minute. A checkpoint that is triggered while an epoch runs waits for its
end; so does a `stop` right after a job is resumed. The rehearsal is the Spark job of an epoch without rows that reaches no
slot. It runs while the slots restore their state and longer, and until it has ended no epoch begins: a checkpoint is taken
at once, at the restored state.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from pystate.runtime.engines.micro_batch.spark.exchange import SlotDirectory
from pystate.runtime.engines.micro_batch.spark.translator import frame_without_rows
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Rehearsal:
    """The rehearsal of one attempt.

    Args:
        spark: The Spark session.
        plan: The job's plan.
        frames: The DataFrames of the plan's sources.
        environment: The job's environment.
    """

    def __init__(self, spark: SparkSession, plan: JobPlan, frames: list[DataFrame], environment: JobEnvironment) -> None:
        self._spark = spark
        self._plan = plan
        self._frames = frames
        self._environment = environment
        self._group = f"pystate-{environment.job_id}-{environment.attempt}-rehearsal"
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin on a thread of its own; call it once."""
        self._thread = threading.Thread(target=self._run, name="rehearsal", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for its end; returns at once if it has not begun."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Cancel what is left of it, also where its Spark job has yet to begin; returns at once."""
        if self._thread is not None and self._thread.is_alive():
            threading.Thread(target=self._cancel, name="rehearsal-cancel", daemon=True).start()  # Spark may hang

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):  # Spark may have stopped
            # PySpark's own cancelJobGroup() would leave out a job that is submitted a moment later: its tasks would fail
            # four times at the secret, which is gone by then, while the next job of the notebook begins
            self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)  # noqa: SLF001

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # of whatever kind: the first epoch meets it, too, and reports it
            self._spark.sparkContext.setJobGroup(self._group, "rehearsal of the first epoch")
            no_slots = SlotDirectory(self._environment.job_id, self._environment.attempt, b"", ())
            frame = frame_without_rows(self._spark, self._plan, self._frames, no_slots, self._environment)
            frame.write.format("noop").mode("overwrite").save()

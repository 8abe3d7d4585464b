"""Selects the engine of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.runtime.engines.micro_batch.driver.micro_batch_job_engine import MicroBatchJobEngine
from pystate.runtime.engines.real_time.driver.real_time_job_engine import RealTimeJobEngine
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.job_engine import JobEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job_engine(job: JobContext, spark: SparkSession) -> JobEngine:
    """Return the engine of a job by `execution.engine`; the only place that knows all engines.

    Each brings its half in the slots along (`Engine.slot_engine`), so that the two can't be of different engines.
    """
    if job.configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME:
        return RealTimeJobEngine(job, spark)
    return MicroBatchJobEngine(job, spark)

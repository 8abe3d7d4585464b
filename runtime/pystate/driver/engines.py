"""Which engine a job runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.driver.job_context import JobContext
from pystate.driver.job_engine import JobEngine
from pystate.driver.micro_batch.job_engine import MicroBatchJobEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job_engine(job: JobContext, spark: SparkSession) -> JobEngine:
    """Return the engine for a job: the one place that knows which there are, where `job.configuration` is to choose.

    Each brings its half in the slots along (`Engine.slot_engine`), so that the two can't be of different engines.
    """
    return MicroBatchJobEngine(job, spark)

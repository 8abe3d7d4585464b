"""The output of an epoch as a batch DataFrame for user functions: small output is fetched, large output stays in the slots.

A DataFrame over the slots needs a stage of Python workers to fetch the rows, some 40 ms that dominate an epoch of few rows.
Few rows are fetched here and shipped with the DataFrame, as `createDataFrame` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.engines.micro_batch.spark.exchange import SlotDirectory, fetch_output, fetch_stage
from pystate.runtime.plan.job_plan import JobPlan, SinkPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEW_ROWS = 2_000
_FEW_BYTES = 256 << 10
"""Fetched rows reach the JVM through a file, and are sent to the executors with each task."""


def output_frame(
    spark: SparkSession,
    plan: JobPlan,
    sink: SinkPlan,
    slots: SlotDirectory,
    epoch: int,
    prepared: Mapping[SubtaskId, PreparedEpoch],
) -> DataFrame:
    """Return a batch DataFrame over the output of one sink in an epoch; it may be transformed freely.

    Args:
        spark: The Spark session.
        plan: The job's plan.
        sink: The sink.
        slots: The addresses of the slots.
        epoch: The epoch number; it has not ended.
        prepared: What each subtask has reported about it.
    """
    task = plan.task(sink.task_uid)
    schema = task.output(sink.tag).schema()
    rows = sum(share.rows_out for (uid, _), share in prepared.items() if uid == task.uid)
    table = _few(sink, slots, epoch, task.parallelism, schema) if rows <= _FEW_ROWS else None
    if table is not None:
        return local_frame(spark, table, task.parallelism)
    subtasks = spark.range(0, task.parallelism, 1, task.parallelism)
    return subtasks.mapInArrow(fetch_stage(slots, task.uid, sink.tag, epoch), from_arrow_schema(schema))


def local_frame(spark: SparkSession, table: pa.Table, partitions: int) -> DataFrame:
    """Return rows as a DataFrame that contains them, with at most so many partitions."""
    return spark.createDataFrame(table, schema=from_arrow_schema(table.schema)).coalesce(partitions)


def _few(sink: SinkPlan, slots: SlotDirectory, epoch: int, parallelism: int, schema: pa.Schema) -> pa.Table | None:
    """Return the sink's rows; None if they are too large."""
    batches, size = [], 0
    for subtask in range(parallelism):
        for batch in fetch_output(slots, sink.task_uid, sink.tag, epoch, subtask):
            size += batch.nbytes
            if size > _FEW_BYTES:
                return None
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)

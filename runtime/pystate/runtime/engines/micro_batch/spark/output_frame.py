"""The output of an epoch as a batch DataFrame, for functions that write it on: fetched where it is small, else in the slots.

A DataFrame over the slots takes a stage of Python workers, which fetch the rows: some 40 ms that an epoch of few rows does
little else in. Few rows are fetched here and handed to Spark with the DataFrame, as `createDataFrame` does.
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
"""What is fetched here crosses to the JVM through a file, and is sent to the executors with each task."""


def output_frame(
    spark: SparkSession,
    plan: JobPlan,
    sink: SinkPlan,
    slots: SlotDirectory,
    epoch: int,
    prepared: Mapping[SubtaskId, PreparedEpoch],
) -> DataFrame:
    """Return a batch DataFrame over what one sink gets of an epoch; reshape it at will.

    Args:
        spark: The session.
        plan: The job's.
        sink: The sink.
        slots: Where the slots are.
        epoch: Which epoch; it has not ended.
        prepared: What each subtask has told of it.
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
    """Return rows as a DataFrame that has them with it, with so many partitions at most."""
    return spark.createDataFrame(table, schema=from_arrow_schema(table.schema)).coalesce(partitions)


def _few(sink: SinkPlan, slots: SlotDirectory, epoch: int, parallelism: int, schema: pa.Schema) -> pa.Table | None:
    """Return the sink's rows; None where they are too many bytes."""
    batches, size = [], 0
    for subtask in range(parallelism):
        for batch in fetch_output(slots, sink.task_uid, sink.tag, epoch, subtask):
            size += batch.nbytes
            if size > _FEW_BYTES:
                return None
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)

"""The plan as a streaming DataFrame: source, stateless chain, and a shuffle and an exchange per task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pystate.api.job_graph import SourceTransformation
from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.slot.output import OutputKind
from pystate.slot.records import KEY_GROUP_FIELD, ROUTE_FIELD, KeyColumn
from pystate.slot.task import JobEnvironment, TaskSpec
from pystate.spark.exchange import SlotDirectory, chain_stage, exchange_stage, fetch_stage
from pystate.spark.job_plan import EDGE_TAG, JobPlan, SinkPlan, vertex_id
from pystate.spark.schema import type_info_of
from pystate.state.base.keys import type_tag

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NOTHING = "done INT"


def source_type(source: SourceTransformation, frame: DataFrame) -> TypeInformation:
    """Return the type of a source's elements.

    Raises:
        JobGraphError: The columns have types pystate doesn't have, or are too many for single values.
    """
    if not source.single_column:
        return type_info_of(frame.schema, source.name)
    if len(frame.columns) != 1:
        message = f"A source of single values has one column, this one has {', '.join(frame.columns)}."
        raise JobGraphError(message, where=source.name)
    return type_info_of(frame.schema.fields[0].dataType, source.name)


def streaming_frame(plan: JobPlan, frame: DataFrame, slots: SlotDirectory, environment: JobEnvironment) -> DataFrame:
    """Return the DataFrame whose evaluation runs one epoch through all tasks; it has no rows."""
    if plan.source.chain is not None:
        (edge,) = plan.source.chain.all_outputs()
        head = TaskSpec(
            uid=plan.source.uid,
            name=plan.source.step.name,
            vertex_id=vertex_id(plan.source.uid),
            parallelism=plan.tasks[0].parallelism,
            max_parallelism=plan.tasks[0].max_parallelism,
            input_type=plan.source.step.output_type,
        )
        frame = frame.mapInArrow(chain_stage(head, plan.source.chain, environment), from_arrow_schema(edge.schema()))
    for task in plan.tasks:
        edges = [output for output in task.outputs if output.kind is OutputKind.EDGE]
        schema: StructType | str = from_arrow_schema(edges[0].schema()) if edges else _NOTHING
        stage = exchange_stage(slots, task.uid, EDGE_TAG if edges else None)
        frame = _routed(frame, task).mapInArrow(stage, schema)
    return frame


def kept_frame(spark: SparkSession, plan: JobPlan, sink: SinkPlan, slots: SlotDirectory, epoch: int) -> DataFrame:
    """Return a batch DataFrame over the kept output of one sink; reshape it at will."""
    task = next(task for task in plan.tasks if task.uid == sink.task_uid)
    schema = from_arrow_schema(task.output(sink.tag).schema())
    subtasks = spark.range(0, task.parallelism, 1, task.parallelism)
    return subtasks.mapInArrow(fetch_stage(slots, task.uid, sink.tag, epoch), schema)


def _routed(frame: DataFrame, task: TaskSpec) -> DataFrame:
    """Put each row into the partition of the subtask that owns its key group."""
    if task.key is None:
        # without a key, rows stay with the others of their partition, so that their order survives
        frame = frame.withColumn(ROUTE_FIELD, F.expr(f"cast(pmod(spark_partition_id(), {task.parallelism}) AS INT)"))
        return frame.repartitionById(task.parallelism, F.col(ROUTE_FIELD))
    frame = frame.withColumn(KEY_GROUP_FIELD, _key_group(task.key, task.max_parallelism))
    route = F.expr(f"cast({KEY_GROUP_FIELD} * {task.parallelism} div {task.max_parallelism} AS INT)")
    return frame.repartitionById(task.parallelism, route)


def _key_group(key: KeyColumn, max_parallelism: int) -> Column:
    """Return the key group as a column; the same as `KeyCodec.key_group` computes (see `state.base.keys`)."""
    name = "`" + key.column.replace("`", "``") + "`"
    if key.native:
        hashed = f"hash({type_tag(key.key_type)}, {name})"
    else:
        tag = f"cast(conv(hex(substring({name}, 1, 1)), 16, 10) AS INT)"
        hashed = f"hash({tag}, substring({name}, 2))"
    return F.expr(f"cast(pmod({hashed}, {max_parallelism}) AS INT)")

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
from pystate.slot.task import JobEnvironment, TaskInput, TaskSpec
from pystate.spark.exchange import SlotDirectory, chain_stage, exchange_stage, fetch_stage
from pystate.spark.job_plan import JobPlan, SinkPlan, vertex_id
from pystate.spark.level import EDGE_FIELD, TASK_FIELD, Level
from pystate.spark.schema import type_info_of
from pystate.spark.source_checks import check_frame, check_no_other_query
from pystate.state.base.keys import type_tag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOTHING = "done INT"


def source_type(source: SourceTransformation, frame: DataFrame) -> TypeInformation:
    """Return the type of a source's elements.

    Raises:
        JobGraphError: The columns have types pystate doesn't have, or are too many for single values; or the DataFrame holds
            what a restore could not bring back.
    """
    check_no_other_query(frame.sparkSession)
    check_frame(frame, source.name)
    if not source.single_column:
        return type_info_of(frame.schema, source.name)
    if len(frame.columns) != 1:
        message = f"A source of single values has one column, this one has {', '.join(frame.columns)}."
        raise JobGraphError(message, where=source.name)
    return type_info_of(frame.schema.fields[0].dataType, source.name)


def streaming_frame(plan: JobPlan, frame: DataFrame, slots: SlotDirectory, environment: JobEnvironment) -> DataFrame:
    """Return the DataFrame whose evaluation runs one epoch through all tasks; it has no rows."""
    first, *rest = _levels(plan)
    if plan.source.chain is not None:
        head = TaskSpec(
            uid=plan.source.uid,
            name=plan.source.step.name,
            vertex_id=vertex_id(plan.source.uid),
            parallelism=plan.tasks[0].parallelism,
            max_parallelism=plan.tasks[0].max_parallelism,
            inputs=[TaskInput(plan.source.step.output_type)],
        )
        stage = chain_stage(head, plan.source.chain, environment, first)
        frame = frame.mapInArrow(stage, from_arrow_schema(first.schema()))
    for level, following in zip([first, *rest], [*rest, None], strict=True):
        schema: StructType | str = _NOTHING if following is None else from_arrow_schema(following.schema())
        frame = _routed(frame, level).mapInArrow(exchange_stage(slots, level, following), schema)
    return frame


def _levels(plan: JobPlan) -> list[Level]:
    """Return the plan's levels with the edges that feed them; a first level that Spark's columns feed has none."""
    outputs = [] if plan.source.chain is None else plan.source.chain.all_outputs()
    levels: list[Level] = []
    for tasks in plan.levels:
        direct = not levels and plan.source.chain is None
        levels.append(Level(tuple(tasks), ()) if direct else Level.of(tasks, outputs))
        outputs = [output for task in tasks for output in task.outputs if output.kind is OutputKind.EDGE]
    return levels


def kept_frame(spark: SparkSession, plan: JobPlan, sink: SinkPlan, slots: SlotDirectory, epoch: int) -> DataFrame:
    """Return a batch DataFrame over the kept output of one sink; reshape it at will."""
    task = next(task for task in plan.tasks if task.uid == sink.task_uid)
    schema = from_arrow_schema(task.output(sink.tag).schema())
    subtasks = spark.range(0, task.parallelism, 1, task.parallelism)
    return subtasks.mapInArrow(fetch_stage(slots, task.uid, sink.tag, epoch), schema)


def _routed(frame: DataFrame, level: Level) -> DataFrame:
    """Put each row into the partition of the subtask that owns its key group."""
    if level.is_single:
        task = level.tasks[0]
        if task.key is None:
            frame = frame.withColumn(ROUTE_FIELD, F.expr(_forward(task)))
            return frame.repartitionById(task.parallelism, F.col(ROUTE_FIELD))
        frame = frame.withColumn(KEY_GROUP_FIELD, F.expr(_key_group(task.key, task.max_parallelism)))
        return frame.repartitionById(task.parallelism, F.expr(_owner(task)))
    groups, routes = [], []
    for index, task in enumerate(level.tasks):
        if task.key is None:
            route = _forward(task)
        else:
            groups.append((index, _key_group(task.key, task.max_parallelism, EDGE_FIELD.format(index) + ".")))
            route = _owner(task)
        routes.append((index, f"{level.first_partition(index)} + {route}"))
    frame = frame.withColumn(KEY_GROUP_FIELD, F.expr(_by_task(groups)))
    frame = frame.withColumn(ROUTE_FIELD, F.expr(_by_task(routes)))
    return frame.repartitionById(level.partitions, F.col(ROUTE_FIELD))


def _by_task(cases: list[tuple[int, str]]) -> str:
    branches = " ".join(f"WHEN {index} THEN {expression}" for index, expression in cases)
    return f"cast(CASE {TASK_FIELD} {branches} END AS INT)" if cases else "cast(NULL AS INT)"


def _forward(task: TaskSpec) -> str:
    """Return the subtask of rows without a key: they stay with the others of their partition, so their order survives."""
    return f"cast(pmod(spark_partition_id(), {task.parallelism}) AS INT)"


def _owner(task: TaskSpec) -> str:
    return f"cast({KEY_GROUP_FIELD} * {task.parallelism} div {task.max_parallelism} AS INT)"


def _key_group(key: KeyColumn, max_parallelism: int, path: str = "") -> str:
    """Return the key group as SQL; the same as `KeyCodec.key_group` computes (see `state.base.keys`)."""
    name = path + "`" + key.column.replace("`", "``") + "`"
    if key.native:
        hashed = f"hash({type_tag(key.key_type)}, {name})"
    else:
        tag = f"cast(conv(hex(substring({name}, 1, 1)), 16, 10) AS INT)"
        hashed = f"hash({tag}, substring({name}, 2))"
    return f"cast(pmod({hashed}, {max_parallelism}) AS INT)"

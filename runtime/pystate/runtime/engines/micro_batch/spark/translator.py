"""Translates a plan to a streaming DataFrame: sources with stateless stages, and a shuffle and an exchange per level."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pystate.common.errors import JobGraphError
from pystate.common.key_groups import default_max_parallelism
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.transformations import SourceTransformation
from pystate.core.records.codec import KEY_GROUP_FIELD, PARTITION_FIELD, ROUTE_FIELD, TIMESTAMP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec, type_tag
from pystate.runtime.engines.micro_batch.spark.exchange import SlotDirectory, exchange_stage
from pystate.runtime.engines.micro_batch.spark.level import PORT_FIELD, ROWS_FIELD, TURN_FIELD, Level, Port, levels_of
from pystate.runtime.engines.micro_batch.spark.source_checks import check_frame, check_no_other_query
from pystate.runtime.engines.micro_batch.spark.stream_plans import in_session
from pystate.runtime.engines.micro_batch.spark.worker_stages import chain_stage
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan, vertex_id
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import Routing
from pystate.runtime.spark.sessions.session_copy import session_like
from pystate.runtime.spark.source_metrics import SourceMetrics
from pystate.runtime.spark.spark_collection_source import collection_frame
from pystate.runtime.spark.spark_types import type_info_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING = "done INT"
_EVERYWHERE = (Routing.BROADCAST, Routing.WATERMARK)


def source_frame(spark: SparkSession, source: SourceTransformation) -> DataFrame:
    """Return the streaming DataFrame of a source.

    Raises:
        PystateError: The source can't be read.
    """
    if source.collection is not None:
        frame = collection_frame(spark, source)
    else:
        assert source.frame is not None  # noqa: S101 - the environment sets one of the two
        frame = in_session(source.frame(), spark)
    return frame if source.parallelism is None else frame.coalesce(source.parallelism)


def source_type(source: SourceTransformation, frame: DataFrame) -> TypeInformation:
    """Return the type of a source's elements.

    Raises:
        JobGraphError: The columns have types unknown to pystate, or are too many for single values; or the DataFrame
            contains something that can't be restored.
    """
    check_no_other_query(frame.sparkSession)
    check_frame(frame, source.name)
    if source.collection is not None and source.output_type is not None:
        return source.output_type
    if source.decoder is not None:
        return source.output_type or Types.PICKLED_BYTE_ARRAY()
    if not source.single_column:
        columns = type_info_of(frame.schema, source.name)
        declared = source.output_type or columns
        if declared.get_field_names() != columns.get_field_names():
            message = f"The source is declared as {declared.name}, its columns are {columns.name}."
            raise JobGraphError(message, where=source.name, hint="leave type_info out")
        return columns
    if len(frame.columns) != 1:
        message = f"A source of single values has one column, this one has {', '.join(frame.columns)}."
        raise JobGraphError(message, where=source.name)
    return type_info_of(frame.schema.fields[0].dataType, source.name)


def streaming_frame(
    plan: JobPlan,
    frames: list[DataFrame],
    slots: SlotDirectory,
    environment: JobEnvironment,
    metrics: SourceMetrics | None = None,
) -> DataFrame:
    """Return the DataFrame whose evaluation runs one epoch through all tasks; it returns no rows.

    Args:
        plan: The job's plan.
        frames: The DataFrames of the plan's sources.
        slots: The addresses of the slots.
        environment: The job's environment.
        metrics: Collects the metrics of the stateless stages.
    """
    return frame_of_levels(plan, staged_frame(plan, frames, environment, metrics), slots, environment)


def staged_frame(
    plan: JobPlan, frames: list[DataFrame], environment: JobEnvironment, metrics: SourceMetrics | None = None
) -> DataFrame:
    """Return the rows of all sources after their stateless stages; see `streaming_frame`."""
    first = levels_of(plan)[0]
    staged = [
        _staged(plan, source, frame, first, environment, metrics) for source, frame in zip(plan.sources, frames, strict=True)
    ]
    return functools.reduce(DataFrame.union, staged)


def frame_of_levels(plan: JobPlan, frame: DataFrame, slots: SlotDirectory, environment: JobEnvironment) -> DataFrame:
    """Return the DataFrame that takes the rows of `staged_frame` through all tasks; see `streaming_frame`."""
    first, *rest = levels_of(plan)
    for level, following in zip([first, *rest], [*rest, None], strict=True):
        schema: StructType | str = _NOTHING if following is None else from_arrow_schema(following.schema())
        stage = exchange_stage(slots, level, following, environment.kept_output_bytes)
        frame = _routed(frame, level)
        if level.in_order:
            frame = _sorted(frame, level)
        frame = frame.mapInArrow(stage, schema)
    return frame


def frame_without_rows(
    spark: SparkSession, plan: JobPlan, frames: list[DataFrame], slots: SlotDirectory, environment: JobEnvironment
) -> DataFrame:
    """Return the DataFrame of an epoch that belongs to no Spark batch: its sources have no rows.

    It can be evaluated repeatedly, one epoch each time.
    """
    # Spark would drop shuffles without rows, and with them the tasks downstream
    session = session_like(spark, {"spark.sql.adaptive.enabled": "false"})
    nothing = spark.sparkContext.emptyRDD
    if not frames:
        first = session.createDataFrame(nothing(), from_arrow_schema(levels_of(plan)[0].schema()))
        return frame_of_levels(plan, first, slots, environment)
    return streaming_frame(plan, [session.createDataFrame(nothing(), frame.schema) for frame in frames], slots, environment)


def _staged(
    plan: JobPlan,
    source: SourcePlan,
    frame: DataFrame,
    first: Level,
    environment: JobEnvironment,
    metrics: SourceMetrics | None,
) -> DataFrame:
    """Return a source's rows in the schema of the first level."""
    if source.chain is None:
        return frame
    head = TaskSpec(
        uid=source.uid,
        name=source.step.name,
        vertex_id=vertex_id(source.uid),
        parallelism=plan.parallelism,
        max_parallelism=default_max_parallelism(plan.parallelism),
        inputs=[
            TaskInput(
                source.step.output_type,
                partitioned_by=source.step.partitioned_by,
                decoder=source.step.decoder,
                taken=source.step.taken,
            )
        ],
        chain=source.chain,
        is_source=True,
    )
    report = None if metrics is None else metrics.reporter(source.uid, plan.parallelism)
    return frame.mapInArrow(chain_stage(head, environment, first, report), from_arrow_schema(first.schema()))


def _routed(frame: DataFrame, level: Level) -> DataFrame:
    """Move each row to the partition of its subtask; copy a row for all subtasks into each."""
    groups, routes = [], []
    everywhere = any(port.routing in _EVERYWHERE for port in level.ports)
    for index, port in enumerate(level.ports):
        path = _path(level, index)
        if port.key is not None:
            groups.append((index, _key_group(port.key, port.task.max_parallelism, path)))
        routes.append((index, _routes(port, level.first_partition(port.task), path, as_array=everywhere)))
    if groups:
        frame = frame.withColumn(KEY_GROUP_FIELD, F.expr(_by_port(groups, level, "INT")))
    elif not level.is_single:
        frame = frame.withColumn(KEY_GROUP_FIELD, F.expr("cast(NULL AS INT)"))
    for index, _ in enumerate(level.passing, len(level.ports)):
        riding = f"cast(pmod(spark_partition_id(), {level.partitions}) AS INT)"
        routes.append((index, f"array({riding})" if everywhere else riding))
    if not routes:  # all sources are in slots
        routes.append((0, "array(0)" if everywhere else "0"))
    route = _by_port(routes, level, "ARRAY<INT>" if everywhere else "INT")
    if level.is_single and level.ports[0].routing is Routing.KEY:
        return frame.repartitionById(level.partitions, F.expr(route))
    frame = frame.withColumn(ROUTE_FIELD, F.expr(f"explode({route})" if everywhere else route))
    return frame.repartitionById(level.partitions, F.col(ROUTE_FIELD))


def _sorted(frame: DataFrame, level: Level) -> DataFrame:
    """Sort the rows of each partition by key and then by time; rows without a time come first, as in Flink.

    Rows without a key come first. Rows of one key and time come in no particular order. Spark sorts on disk if they exceed
    its memory.
    """
    keyed = [(index, port) for index, port in enumerate(level.ports) if port.key is not None]
    order = []
    if keyed and not level.is_single:  # null is a key, too
        order.append(F.expr(_by_port([(index, "1") for index, _ in keyed], level)))
    for task in level.tasks:  # a partition has the rows of one task, whose keys have one type
        of_task = [
            (index, _quoted(port.key, _path(level, index))) for index, port in keyed if port.task is task and port.key
        ]
        if of_task:
            order.append(F.expr(_by_port(of_task, level)))
    timed = [
        (index, _path(level, index) + TIMESTAMP_FIELD)
        for index, port in keyed
        if port.task.inputs[port.input_index].timestamped
    ]
    if timed:
        order.append(F.expr(_by_port(timed, level, "BIGINT")))
    return frame.sortWithinPartitions(*order) if order else frame


def _path(level: Level, index: int) -> str:
    return "" if level.is_single else f"{ROWS_FIELD.format(index)}."


def _quoted(key: KeyColumn, path: str) -> str:
    return path + "`" + key.column.replace("`", "``") + "`"


def _by_port(cases: list[tuple[int, str]], level: Level, sql_type: str | None = None) -> str:
    if level.is_single:
        return cases[0][1]
    branches = " ".join(f"WHEN {index} THEN {expression}" for index, expression in cases)
    chosen = f"CASE {PORT_FIELD} {branches} END"
    return chosen if sql_type is None else f"cast({chosen} AS {sql_type})"


def _routes(port: Port, first: int, path: str, *, as_array: bool) -> str:
    """Return, as SQL, the partition of a row; with `as_array` an array of partitions."""
    count, turn = port.task.parallelism, f"{path}{TURN_FIELD}"
    if port.routing in _EVERYWHERE:
        return f"sequence({first}, {first + count - 1})"
    subtask = {
        Routing.KEY: f"{KEY_GROUP_FIELD} * {count} div {port.task.max_parallelism}",
        # rows stay with the others of their partition, which keeps their order
        Routing.FORWARD: f"pmod(spark_partition_id(), {count})",
        Routing.REBALANCE: f"pmod({turn}, {count})",
        Routing.SHUFFLE: f"pmod(hash({turn}), {count})",
        Routing.GLOBAL: "0",
        Routing.CUSTOM: f"{path}{PARTITION_FIELD}",
    }[port.routing]
    route = f"cast({first} + {subtask} AS INT)"
    return f"array({route})" if as_array else route


def _key_group(key: KeyColumn, max_parallelism: int, path: str = "") -> str:
    """Return the key group as SQL, equal to that of `KeyCodec.key_group` (see `state.base.keys`)."""
    name = _quoted(key, path)
    if key.native:
        codec = KeyCodec(key.key_type)
        null_group = codec.key_group(codec.internal(None), max_parallelism)
        group = f"pmod(hash({type_tag(key.key_type)}, {name}), {max_parallelism})"
        return f"cast(if(isnull({name}), {null_group}, {group}) AS INT)"
    else:
        tag = f"cast(conv(hex(substring({name}, 1, 1)), 16, 10) AS INT)"
        hashed = f"hash({tag}, substring({name}, 2))"
    return f"cast(pmod({hashed}, {max_parallelism}) AS INT)"

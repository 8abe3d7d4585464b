"""Bounds how much one epoch reads of a source without a limit of its own: otherwise the first epoch reads the whole backlog.

A barrier waits for the end of its epoch, a restart reruns the epoch, and the changes of an epoch must fit in memory. The
limit is put into the plan of the DataFrame as the source option that the author could have set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.option_types import MemorySizeType
from pystate.common.configuration.pystate_options import PystateOptions
from pystate.connectors.spark_format import ReadUnit
from pystate.runtime.engines.micro_batch.spark.stream_formats import (
    RELATIONS,
    V1,
    format_name,
    format_of,
    node_name,
    relation_options,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class _Bound:
    """The most that an epoch reads of a source.

    Attributes:
        value: In the unit of the source's limit; 0 for no bound.
        said: The same as text for users.
        key: The pystate option that sets it.
    """

    value: int
    said: str
    key: str


class EpochBounds:
    """The read limits of one job.

    Args:
        configuration: The effective options.
        parallelism: The job's parallelism; the limit of a source is that of one subtask times this.
    """

    def __init__(self, configuration: Configuration, parallelism: int) -> None:
        size = configuration.get(PystateOptions.SOURCE_MAX_BYTES_PER_EPOCH) * parallelism
        rows = configuration.get(PystateOptions.SOURCE_MAX_ROWS_PER_EPOCH) * parallelism
        self._bounds = {
            ReadUnit.BYTES: _Bound(size, MemorySizeType().format(size), PystateOptions.SOURCE_MAX_BYTES_PER_EPOCH.key),
            ReadUnit.ROWS: _Bound(rows, f"{rows} rows", PystateOptions.SOURCE_MAX_ROWS_PER_EPOCH.key),
        }

    def bound(self, frame: DataFrame, where: str) -> tuple[DataFrame, list[str]]:
        """Return the DataFrame with limits for streams that have none, and a sentence about each kind that got one.

        Args:
            frame: A streaming DataFrame.
            where: The source's name.
        """
        notices: list[str] = []

        def limited(relation: Any) -> Any:
            known = format_of(relation)
            limit = None if known is None else known.limit
            if limit is None:
                if known is None or not known.limits_itself:
                    notices.append(
                        f"The source {where!r} reads {format_name(relation)!r}, of which pystate knows no limit: its first "
                        "epoch may hold all that is there. Set the limit that the format has."
                    )
                return relation
            bound = self._bounds[limit.unit]
            own = {option.lower() for option in (limit.option, *limit.others)}
            if bound.value == 0 or not own.isdisjoint(relation_options(relation)):
                return relation
            notices.append(f"An epoch reads at most {bound.said} of the source {where!r}: {bound.key} sets this limit.")
            return _with_option(relation, limit.option, str(bound.value))

        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark has no public way to the plan
        bounded = _rewritten(plan, limited)
        if bounded.equals(plan):
            return frame, list(dict.fromkeys(notices))
        return _frame_of(bounded, frame), list(dict.fromkeys(notices))


def _rewritten(plan: Any, limited: Callable[[Any], Any]) -> Any:
    """Return a plan with its streams replaced; their columns, and so all nodes above them, stay the same."""
    if node_name(plan) in RELATIONS:
        return limited(plan)
    children = [plan.children().apply(index) for index in range(plan.children().length())]
    if not any(child.isStreaming() for child in children):
        return plan
    jvm = _jvm()
    new = jvm.java.util.ArrayList()
    for child in children:
        new.add(_rewritten(child, limited) if child.isStreaming() else child)
    return plan.withNewChildren(jvm.scala.jdk.javaapi.CollectionConverters.asScala(new).toSeq())


def _with_option(relation: Any, key: str, value: str) -> Any:
    if node_name(relation) == V1:
        source = relation.dataSource()
        return _copy(relation, dataSource=_copy(source, options=source.options().updated(key, value)))
    options = _jvm().java.util.HashMap(relation.extraOptions().asCaseSensitiveMap())
    options.put(key, value)
    return _copy(relation, extraOptions=_jvm().org.apache.spark.sql.util.CaseInsensitiveStringMap(options))


def _copy(product: Any, **changes: Any) -> Any:
    """Return a copy of a Scala case class with changed fields; further fields of other Spark versions are kept."""
    from pyspark import SparkContext

    count = int(product.productArity())
    fields = SparkContext._gateway.new_array(_jvm().java.lang.Object, count)  # type: ignore[union-attr]  # noqa: SLF001
    for index in range(count):
        name = str(product.productElementName(index))
        fields[index] = changes[name] if name in changes else product.productElement(index)
    constructors = product.getClass().getConstructors()
    return next(each for each in constructors if each.getParameterCount() == count).newInstance(fields)


def _frame_of(plan: Any, like: DataFrame) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    session = like.sparkSession
    dataset = _jvm().org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)  # noqa: SLF001
    return ClassicDataFrame(dataset, session)


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm  # noqa: SLF001 - the only access to the plan

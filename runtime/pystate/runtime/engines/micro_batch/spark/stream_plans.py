"""Plans of streaming DataFrames in the JVM, with their streams replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pystate.runtime.engines.micro_batch.spark.stream_formats import RELATIONS, V1, node_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rewritten(plan: Any, change: Callable[[Any], Any]) -> Any:
    """Return a plan with its streams replaced; their columns, and so all nodes above them, stay the same."""
    if node_name(plan) in RELATIONS:
        return change(plan)
    children = [plan.children().apply(index) for index in range(plan.children().length())]
    if not any(child.isStreaming() for child in children):
        return plan
    java = jvm()
    new = java.java.util.ArrayList()
    for child in children:
        new.add(rewritten(child, change) if child.isStreaming() else child)
    return plan.withNewChildren(java.scala.jdk.javaapi.CollectionConverters.asScala(new).toSeq())


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return a streaming DataFrame as one of another session, whose settings its queries then have.

    Args:
        frame: The DataFrame.
        session: The session, of the same application.
    """
    ours: Any = session._jsparkSession  # noqa: SLF001 - the only access to the plan
    if frame.sparkSession._jsparkSession.equals(ours):  # noqa: SLF001
        return frame

    def moved(relation: Any) -> Any:
        if node_name(relation) != V1:
            return relation
        return copied(relation, dataSource=copied(relation.dataSource(), sparkSession=ours))

    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark has no public way to the plan
    return frame_of(rewritten(plan, moved), session)


def copied(product: Any, **changes: Any) -> Any:
    """Return a copy of a Scala case class with changed fields; further fields of other Spark versions are kept."""
    from pyspark import SparkContext

    count = int(product.productArity())
    fields = SparkContext._gateway.new_array(jvm().java.lang.Object, count)  # type: ignore[union-attr]  # noqa: SLF001
    for index in range(count):
        name = str(product.productElementName(index))
        fields[index] = changes[name] if name in changes else product.productElement(index)
    constructors = product.getClass().getConstructors()
    return next(each for each in constructors if each.getParameterCount() == count).newInstance(fields)


def frame_of(plan: Any, session: SparkSession) -> DataFrame:
    """Return the DataFrame of a plan."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    dataset = jvm().org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)  # noqa: SLF001
    return ClassicDataFrame(dataset, session)


def jvm() -> Any:
    """Return Java's classes."""
    from pyspark import SparkContext

    return SparkContext._jvm  # noqa: SLF001 - the only access to the plan

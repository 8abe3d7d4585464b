"""Private fields of Spark's classes, for what neither Spark nor py4j has another way to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def private_field(context: SparkContext, owner: str, name: str) -> Any:
    """Return a private field of a class, as Java has it: `.get(object)` reads it.

    A public one is better read this way, too, where its owner has methods with types that aren't there: py4j looks at all
    methods of an object that it calls one of.

    Args:
        context: The Spark application.
        owner: The class's name.
        name: The field's.
    """
    jvm: Any = context._jvm  # noqa: SLF001 - pyspark has no public way to Java's classes
    field = jvm.java.lang.Class.forName(owner).getDeclaredField(name)
    field.setAccessible(True)
    return field


def spark_environment(context: SparkContext) -> Any:
    """Return Spark's `SparkEnv`, of which fields are to be read by `private_field` only."""
    scala: Any = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    return scala.env()

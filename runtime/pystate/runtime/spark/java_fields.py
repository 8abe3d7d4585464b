"""Access to private fields of Spark's classes, for what has no public API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def private_field(context: SparkContext, owner: str, name: str) -> Any:
    """Return a private field of a class, as Java has it: `.get(object)` reads it.

    Use it for public fields, too, if the owner has methods with missing types: py4j inspects all methods of an object when
    it calls one.

    Args:
        context: The Spark application.
        owner: The class's name.
        name: The field's name.
    """
    jvm: Any = context._jvm  # noqa: SLF001 - pyspark has no public way to Java's classes
    field = jvm.java.lang.Class.forName(owner).getDeclaredField(name)
    field.setAccessible(True)
    return field


def spark_environment(context: SparkContext) -> Any:
    """Return Spark's `SparkEnv`, whose fields must be read by `private_field` only."""
    scala: Any = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    return scala.env()

"""Finds what is known about the format of a stream in a plan: Spark's own formats here, those of systems in connectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pystate.common.overrides import override
from pystate.connectors.installed_connectors import spark_formats
from pystate.connectors.spark_format import Loss, SparkFormat

V1, V2 = "StreamingRelation", "StreamingRelationV2"
"""The nodes of streams in a plan."""
RELATIONS = (V1, V2)


class _Generated(SparkFormat):
    names = ("rate", "rate-micro-batch", "memory")
    limits_itself = True


class _Collection(SparkFormat):
    """Collections of the program, see `spark_collection_source`."""

    limits_itself = True

    @override
    def reads(self, name: str, implementation: str) -> bool:
        return name.startswith("pystate_collection_")


class _Socket(SparkFormat):
    names = ("socket",)
    implementation = "TextSocketSourceProvider"
    keeps_place = False

    @override
    def loss(self, options: Mapping[str, str]) -> Loss | None:
        return Loss("socket", "can't be read again (socket)", "read from what keeps its records, such as files")


_OF_SPARK = (_Generated(), _Collection(), _Socket())


def stream_format(name: str, implementation: str) -> SparkFormat | None:
    """Return what is known about a format; None if nothing is.

    Args:
        name: The name of the format.
        implementation: What Spark calls the class that implements it.
    """
    formats = (*_OF_SPARK, *spark_formats())
    return next((one for one in formats if one.reads(name, implementation)), None)


def format_of(relation: Any) -> SparkFormat | None:
    """Return what is known about the format of a stream in a JVM plan; None if nothing is."""
    return stream_format(format_name(relation), implementation_of(relation))


def format_name(relation: Any) -> str:
    """Return the name of a stream's format, as the program gave it; empty for other nodes of a plan."""
    name = node_name(relation)
    if name == V1:
        return str(relation.dataSource().className())
    return str(relation.sourceName()) if name == V2 else ""


def implementation_of(relation: Any) -> str:
    """Return what Spark calls the implementation of a stream's format; empty for other nodes of a plan."""
    name = node_name(relation)
    if name == V1:
        return str(relation.sourceName())
    return str(relation.source().toString()) if name == V2 else ""


def node_name(plan: Any) -> str:
    """Return the kind of a node of a JVM plan."""
    return str(plan.nodeName()).strip()


def relation_options(relation: Any) -> dict[str, str]:
    """Return the options of a stream in a plan, with keys in lower case; none for other nodes."""
    name = node_name(relation)
    options: dict[str, str] = {}
    if name == V1:
        pairs = relation.dataSource().options().iterator()
        while pairs.hasNext():
            pair = pairs.next()
            options[str(pair._1()).lower()] = str(pair._2())  # noqa: SLF001 - Scala's names of the parts of a pair
    elif name == V2:
        options = {str(key).lower(): str(value) for key, value in relation.extraOptions().items()}
    return options


def streams_of(plan: Any) -> Iterator[Any]:
    """Yield the streams that a JVM plan reads, in the order of Spark's offset log."""
    if node_name(plan) in RELATIONS:
        yield plan
    for index in range(plan.children().length()):
        yield from streams_of(plan.children().apply(index))

"""The connectors of this installation, found by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from pystate.common.distribution import NAME
from pystate.common.errors import ConnectorError
from pystate.common.user_code.user_errors import error_sentence
from pystate.connectors.connector import Connector
from pystate.connectors.spark_format import SparkFormat

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "pystate.connectors"
_LOOK = "pystate doctor looks at each connector"

T = TypeVar("T")


@lru_cache(maxsize=1)
def connectors() -> dict[str, Connector]:
    """Return the connectors by name, in the order of their names.

    Raises:
        ConnectorError: One can't be loaded.
    """
    return {point.name: load(point) for point in connector_entry_points()}


@lru_cache(maxsize=1)
def spark_formats() -> tuple[SparkFormat, ...]:
    """Return what the connectors know about Spark's streaming sources.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    return tuple(one for name, connector in connectors().items() for one in asked(name, connector.spark_formats))


def asked(name: str, question: Callable[[], Iterable[T]]) -> list[T]:
    """Return what a connector answers.

    Args:
        name: Its name.
        question: One of its methods.

    Raises:
        ConnectorError: It raises an exception.
    """
    try:
        return list(question())
    except Exception as error:  # what another distribution's module may raise
        message = f"The connector {name!r} fails: {error_sentence(error)}"
        raise ConnectorError(message, hint=_LOOK) from error


def connector_entry_points() -> list[EntryPoint]:
    """Return the entry points of connectors, in the order of their names.

    Raises:
        ConnectorError: pystate's own are not among them, or two have the same name.
    """
    from importlib.metadata import entry_points  # many modules, for processes that never ask

    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    if not any(_distribution(point) == NAME for point in points):
        message = f"The installation of pystate names no connectors: its entry points of the group {GROUP!r} are missing."
        hint = f"pip install --force-reinstall --no-deps {NAME} (in its source tree: pip install --no-deps -e .)"
        raise ConnectorError(message, hint=hint)
    for first, second in _neighbours(points):
        if first.name == second.name:
            message = (
                f"Two connectors are called {first.name!r}: one of {_distribution(first)}, one of {_distribution(second)}."
            )
            raise ConnectorError(message, hint=f"pip uninstall {_other(first, second)}")
    return points


def load(point: EntryPoint) -> Connector:
    """Return the connector of an entry point.

    Raises:
        ConnectorError: Its module can't be imported, or it is no connector.
    """
    of = _distribution(point)
    where = f"entry point {point.name} = {point.value} of {of}"
    hint = f"pip install --force-reinstall {of}, or pip uninstall {of}; {_LOOK}"
    try:
        connector = point.load()()
    except Exception as error:  # what another distribution's module may raise
        message = f"The connector {point.name!r} can't be loaded: {error_sentence(error)}"
        raise ConnectorError(message, where=where, hint=hint) from error
    if not isinstance(connector, Connector):
        message = f"The connector {point.name!r} is no Connector: its entry point makes {type(connector).__name__}."
        raise ConnectorError(message, where=where, hint="let the entry point name a subclass of Connector")
    return connector


def _neighbours(points: list[EntryPoint]) -> Iterator[tuple[EntryPoint, EntryPoint]]:
    yield from zip(points, points[1:], strict=False)


def _distribution(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else point.dist.name


def _other(first: EntryPoint, second: EntryPoint) -> str:
    return next((name for name in map(_distribution, (first, second)) if name != NAME), _distribution(second))

"""Sources and sinks that find something wrong with themselves, and sinks whose type no element of their stream can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.connectors.early_check import SupportsEarlyCheck
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.core.api.transformations import OwnSourceTransformation, SinkTransformation, element_type
from pystate.runtime.driver.program.wrong_function import WrongFunction

_NUMBERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.FLOAT, TypeKind.DOUBLE)


def wrong_source(step: OwnSourceTransformation) -> Iterator[WrongFunction]:
    """Yield what a source says itself."""
    if isinstance(step.function, SourceOperator):
        yield from _told_early(step.function.source, step.place)


def wrong_for_sink(step: SinkTransformation) -> Iterator[WrongFunction]:
    """Yield that a sink takes another type than its stream has, and what it says itself."""
    sink = step.function.sink if isinstance(step.function, SinkOperator) else None
    yield from _told_early(sink, step.place)
    wanted = None if sink is None else sink.consumed_type
    given = element_type(step.parents[0].output_type)
    if wanted is None or given is None or not _misfits(given, wanted):
        return
    message = f"The sink's serialization schema takes {wanted.name}, and the elements of the stream are {given.name}."
    error = JobGraphError(
        message, hint="put a map(...) with this output_type before the sink, or give a schema of the stream's type"
    )
    yield WrongFunction(error, step.place)


def _told_early(connector: Any, place: str | None) -> Iterator[WrongFunction]:
    for found in connector.early_findings() if isinstance(connector, SupportsEarlyCheck) else ():
        error = JobGraphError(found.error.message, hint=found.error.hint)
        yield WrongFunction(error, place, fails=found.fails, in_slots=found.in_slots)


def _misfits(given: TypeInformation, wanted: TypeInformation) -> bool:
    """Whether no element of a type can be one of the other."""
    if wanted.kind is TypeKind.STRING or given.kind is TypeKind.STRING:
        return (wanted.kind is TypeKind.STRING) is not (given.kind is TypeKind.STRING) and (
            {wanted.kind, given.kind} <= {TypeKind.STRING, TypeKind.ROW, TypeKind.TUPLE, *_NUMBERS}
        )
    if wanted.kind is not TypeKind.ROW:
        return False
    if given.kind in _NUMBERS:
        return True
    if given.kind not in (TypeKind.ROW, TypeKind.TUPLE):
        return False
    own, other = list(given.get_field_types()), list(wanted.get_field_types())
    if len(own) != len(other):
        return True
    if given.kind is TypeKind.ROW and given.names is not None and wanted.names is not None:
        if set(given.names) != set(wanted.names):
            return True
        own = [own[given.names.index(name)] for name in wanted.names]
    return any(TypeKind.STRING in (one.kind, two.kind) and _misfits(one, two) for one, two in zip(own, other, strict=True))

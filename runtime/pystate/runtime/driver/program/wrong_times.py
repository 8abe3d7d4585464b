"""Timers that nobody can have, or that do nothing, and windows whose elements have no time."""

from __future__ import annotations

from collections.abc import Iterator

from pystate.common.errors import JobGraphError
from pystate.common.user_code.used_names import uses_name
from pystate.core.api.functions import Function
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.timer_service import TimerService
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    PartitionTransformation,
    SourceTransformation,
    TimestampsTransformation,
    Transformation,
    UnionTransformation,
)
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.driver.program.function_texts import Step, place_of
from pystate.runtime.driver.program.wrong_function import WrongFunction
from pystate.runtime.plan.chain import function_object, has_on_timer

_ONE_FOR_ONE = (OperatorKind.MAP, OperatorKind.FLAT_MAP, OperatorKind.FILTER)
_TIMERS = (TimerService.register_event_time_timer.__name__, TimerService.register_processing_time_timer.__name__)


def wrong_timers(step: Step) -> Iterator[WrongFunction]:
    """Yield timers without a key, and those that nothing happens for."""
    function = function_object(step.function)
    if not isinstance(function, Function) or not any(uses_name(function, name) for name in _TIMERS):
        return
    place = place_of(getattr(function, "process_element", None)) or step.place
    if step.kind is OperatorKind.PLAIN_PROCESS or (step.kind is OperatorKind.CO_PROCESS and not step.keyed):
        message = f"{step.name!r} registers timers on a stream without a key; a timer belongs to a key."
        hint = "put key_by(...) before process(), and use a KeyedProcessFunction"
        yield WrongFunction(JobGraphError(message, hint=hint), place)
    elif step.kind in (OperatorKind.PROCESS, OperatorKind.KEYED_CO_PROCESS) and not has_on_timer(function):
        message = f"{step.name!r} registers timers and has no on_timer(): nothing happens when they fire."
        hint = "define on_timer(self, timestamp, ctx)"
        yield WrongFunction(JobGraphError(message, hint=hint), place, fails=False)


def no_timestamps(step: Step) -> Iterator[WrongFunction]:
    """Yield windows of event time over elements of a collection to which nothing gives a timestamp."""
    function = step.function
    if not isinstance(function, WindowOperation) or not function.assigner.is_event_time():
        return
    for source in {id(one): one for parent in step.parents for one in _without_timestamps(parent)}.values():
        message = f"{step.name!r} has windows of event time, and nothing gives the elements of {source.name!r} a timestamp."
        hint = (
            "put assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()"
            ".with_timestamp_assigner(...)) before key_by()"
        )
        yield WrongFunction(JobGraphError(message, hint=hint), step.place)


def _without_timestamps(step: Transformation) -> Iterator[SourceTransformation]:
    if isinstance(step, SourceTransformation):
        if step.collection is not None:
            yield step
        return
    if isinstance(step, TimestampsTransformation):
        if step.function.timestamp_assigner is not None:
            return
    elif isinstance(step, OneInputTransformation):
        if step.kind not in _ONE_FOR_ONE:
            return  # windows and timers give timestamps
    elif not isinstance(step, (KeyByTransformation, PartitionTransformation, UnionTransformation)):
        return
    for parent in step.parents:
        yield from _without_timestamps(parent)

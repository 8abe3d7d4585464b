"""Steps that wait for event time although a stream that they read never has watermarks: they would wait forever."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pystate.common.user_code.used_names import uses_name
from pystate.connectors.source import SourceFunction
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.timer_service import TimerService
from pystate.core.api.transformations import (
    OneInputTransformation,
    OwnSourceTransformation,
    SourceTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
)
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.plan.chain import has_on_timer

_OURS = "pystate."


@dataclass(frozen=True)
class MissingWatermarks:
    """A step that waits for watermarks of streams that have none.

    Attributes:
        step: The step.
        message: What is wrong.
        hint: What to add.
    """

    step: Transformation
    message: str
    hint: str

    def __str__(self) -> str:
        """Return a sentence for the author, with the line of the step."""
        where = "" if self.step.place is None else f" ({self.step.place})"
        return f"{self.message}{where} Try: {self.hint}."


def missing_watermarks(graph: StreamGraph) -> Iterator[MissingWatermarks]:
    """Yield the steps of a streaming program that would wait forever for event time.

    A stream with an end ends event time, so nothing waits for it forever; and a source of the program's own may make
    watermarks itself. Of both nothing is said.
    """
    if graph.batch:
        return
    for step in graph.transformations():
        waits = _waits(step)
        if waits is None:
            continue
        streams = sorted({source.name for parent in step.parents for source in _without_watermarks(parent)})
        if not streams:
            continue
        named = " and ".join(repr(name) for name in streams)
        several = len(streams) > 1
        yield MissingWatermarks(
            step,
            f"{step.name!r} waits for the event time of all streams that it reads, and {named} "
            f"{'have' if several else 'has'} no watermarks: {waits}.",
            "give the source a WatermarkStrategy, as WatermarkStrategy.for_bounded_out_of_orderness(...)"
            ".with_timestamp_assigner(...), or put assign_timestamps_and_watermarks(...) after it; with_idleness(...) for a "
            "stream that is seldom written to",
        )


def _waits(step: Transformation) -> str | None:
    """Return what doesn't happen without watermarks; None if the step needs none."""
    if not isinstance(step, (OneInputTransformation, TwoInputTransformation)):
        return None
    function = step.function
    if isinstance(function, WindowOperation):
        return "its windows never end" if function.by_watermarks else None
    if isinstance(function, IntervalJoinOperation):
        return "it keeps every element forever"
    asks = has_on_timer(function) and uses_name(function, TimerService.register_event_time_timer.__name__)
    return "its event-time timers never fire" if asks else None


def _without_watermarks(step: Transformation) -> Iterator[SourceTransformation]:
    """Yield the sources upstream that never end, and without watermarks on their way to a step."""
    found: set[int] = set()
    places = [step]
    while places:
        place = places.pop()
        if id(place) in found:
            continue
        found.add(id(place))
        if isinstance(place, TimestampsTransformation) and place.function.max_out_of_orderness_ms is not None:
            continue
        if isinstance(place, SourceTransformation):
            if not place.bounded and place.stopping is None and not _may_make_watermarks(place):
                yield place
            continue
        places += place.parents


def _may_make_watermarks(source: SourceTransformation) -> bool:
    if not isinstance(source, OwnSourceTransformation):
        return False
    own = source.function.source
    if type(own).__module__.startswith(_OURS):
        return False
    return not isinstance(own, SourceFunction) or _mentions_watermarks(own)


def _mentions_watermarks(function: Any) -> bool:
    """Return whether the file of a function's class has, or may have, what makes watermarks."""
    try:
        return "emit_watermark" in inspect.getsource(inspect.getmodule(type(function)) or type(function))
    except (OSError, TypeError):
        return True

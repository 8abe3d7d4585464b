"""Functions at the end of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.api.functions import SinkFunction
from pystate.slot.operators.one_input import Emit


class SinkContext(SinkFunction.Context):
    """The context of `SinkFunction.invoke`.

    Args:
        clock: The time, ms since 1970.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock

    def current_processing_time(self) -> int:
        """Return the time."""
        return self._clock()


def sink_handler(call: Callable[..., Any], clock: Callable[[], int]) -> Emit:
    """Return what hands each element to a sink."""
    context = SinkContext(clock)

    def run_sink(element: Any) -> None:
        call(element, context)

    return run_sink

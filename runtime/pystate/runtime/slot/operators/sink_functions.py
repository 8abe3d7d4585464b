"""Handlers for sink functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.core.api.functions import SinkFunction
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.one_input import Emit


class SinkContext(SinkFunction.Context):
    """The context of `SinkFunction.invoke`.

    Args:
        time: The chain's time.
        watermark: Returns the event time; None for that of the chain.
    """

    def __init__(self, time: ChainTime, watermark: Callable[[], int] | None = None) -> None:
        self._time = time
        self._watermark = watermark

    def current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._time.clock()

    def current_watermark(self) -> int:
        """Return the current watermark."""
        return self._time.watermark if self._watermark is None else self._watermark()

    def timestamp(self) -> int | None:
        """Return the timestamp of the element."""
        return self._time.timestamp


def sink_handler(call: Callable[..., Any], time: ChainTime, watermark: Callable[[], int] | None = None) -> Emit:
    """Return the function that passes each element to a sink."""
    context = SinkContext(time, watermark)

    def run_sink(element: Any) -> None:
        call(element, context)

    return run_sink

"""Finds functions that fail at their first element, or do nothing, without calling them: from signatures and text.

Only what fails, or is in vain, whatever comes is told of; what depends on elements is left to the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import KeyByTransformation, OwnSourceTransformation, SinkTransformation
from pystate.runtime.driver.program.function_texts import Step
from pystate.runtime.driver.program.wrong_calls import wrong_key, wrong_results, wrong_signatures
from pystate.runtime.driver.program.wrong_connectors import wrong_for_sink, wrong_source
from pystate.runtime.driver.program.wrong_function import WrongFunction
from pystate.runtime.driver.program.wrong_state_uses import state_in_open
from pystate.runtime.driver.program.wrong_times import no_timestamps, wrong_timers


def wrong_functions(graph: StreamGraph) -> Iterator[WrongFunction]:
    """Yield what is wrong with the functions of a program."""
    for step in graph.transformations():
        if isinstance(step, KeyByTransformation):
            yield from wrong_key(step)
        elif isinstance(step, SinkTransformation):
            yield from wrong_for_sink(step)
        elif isinstance(step, OwnSourceTransformation):
            yield from wrong_source(step)
        elif isinstance(step, Step):
            yield from wrong_signatures(step)
            yield from wrong_results(step)
            yield from wrong_timers(step)
            yield from state_in_open(step)
            yield from no_timestamps(step)

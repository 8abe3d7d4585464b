"""Converts restored panes if the step's windows share no panes any more, or different ones.

A step may be restored with another size or slide, with lateness, or with a user-defined function. Its open windows then
continue unchanged: their contents are merged from the panes, once, when the step is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.common.errors import RestoreError
from pystate.core.api.state import StateDescriptor
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS, PaneState
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, new_timer
from pystate.core.state.keys.namespaces import TIME_WINDOWS
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.runtime.slot.operators.windowing.window_state_stores import WindowStates

_TIMERS_PER_LOOK = 1_000


Describe = Callable[[str], StateDescriptor]
"""Returns the descriptor, under a name, of the contents of a step's windows."""


def contents_of_panes(
    describe: Describe, states: WindowStates, timers: KeyGroupedPriorityQueue, backend: KeyedStateBackend, own: str
) -> None:
    """Convert all restored panes to window contents, except those in the step's own state.

    Args:
        describe: The kind of contents of the step's windows.
        states: The step's window states.
        timers: The event-time timers of the windows.
        backend: The state backend; its epoch has ended.
        own: The name of the state that holds the step's contents.

    Raises:
        RestoreError: The step keeps a different kind of contents.
    """
    names = [name for name in backend.state_names() if name != own and PaneState.of(name) is not None]
    for name in names:
        _convert(name, describe, states, timers, backend)
    if names:
        backend.flush_epoch()


def _convert(
    name: str, describe: Describe, states: WindowStates, timers: KeyGroupedPriorityQueue, backend: KeyedStateBackend
) -> None:
    panes, old, contents = PaneState.of(name), None, None
    if states.namespaces.serializer is TIME_WINDOWS:
        old, contents = (Accumulators.of(states.handle(describe(one))) for one in (name, WINDOW_CONTENTS))
    if panes is None or old is None or contents is None:
        message = "The snapshot has accumulators of windows, and this step keeps all elements of its windows."
        raise RestoreError(message, where=f"state {name!r}", hint="give the step another uid, and let that state go")
    for number, timer in enumerate([one for one in timers if _length(one) == panes.slide], 1):
        accumulator = old.read((timer.key, timer.namespace), timer.key_group)
        if accumulator is None:  # a window of the pane's length
            continue
        pane: Any = timer.namespace
        start, _ = pane
        old.remove((timer.key, pane), timer.key_group)
        timers.remove(timer)
        for window in panes.windows(start, timer.timestamp):
            address = timer.key, window
            _, end = window
            before = contents.read(address, timer.key_group)
            after = accumulator if before is None else contents.checked(panes.merge(before, accumulator))
            contents.hold_all([address], [timer.key_group], [after])
            timers.add(new_timer(end - 1, timer.key, timer.key_group, window))
        if number % _TIMERS_PER_LOOK == 0:
            backend.limit_epoch(_TIMERS_PER_LOOK, 0)


def _length(timer: Timer) -> int:
    window: Any = timer.namespace
    start, end = window
    return int(end - start)

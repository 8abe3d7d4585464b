"""Handlers for functions directly after key_by(), which see the state of the element's key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.common.user_code.inlined_code import Code, inlined
from pystate.core.api.functions import KeyedCoProcessFunction, KeyedProcessFunction
from pystate.core.api.state import ValueState, ValueStateDescriptor
from pystate.core.api.timer_service import TimeDomain, TimerService
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.runtime.plan.chain import has_on_timer
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.one_input import Emit, process_handler
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager
from pystate.runtime.slot.timers.timer_services import USER_TIMERS, SimpleTimerService

REDUCE_STATE = "_op_state"
"""The name of the state that holds the rolling result of reduce(), as in Flink's StreamGroupedReduceOperator."""


class UserTimers:
    """The timers of a process function, and the call when they fire (Flink's KeyedProcessOperator).

    The service is created when first used, or at once if the function has an `on_timer`, since restored timers fire.

    Args:
        timers: The operator's timer services.
    """

    def __init__(self, timers: InternalTimeServiceManager) -> None:
        self._timers = timers
        self._service: SimpleTimerService | None = None
        self._fire: Callable[[int, TimeDomain], None] = _ignore_timer

    def fire_with(self, fire: Callable[[int, TimeDomain], None]) -> None:
        """Set the function that is called with a timer's time and domain; without it, timers are ignored."""
        self._fire = fire
        self.service()

    def service(self) -> TimerService:
        """Return the timer service that the function sees."""
        if self._service is None:
            self._service = SimpleTimerService(self._timers.get_internal_timer_service(USER_TIMERS, self))
        return self._service

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Call the function."""
        self._fire(timestamp, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Call the function."""
        self._fire(timestamp, TimeDomain.PROCESSING_TIME)


def _ignore_timer(_timestamp: int, _domain: TimeDomain) -> None:
    """Ignore a timer, for functions without an `on_timer`."""


class FiredTimer:
    """The timer that a context of `on_timer` refers to.

    Attributes:
        timestamp: The timestamp it was registered for.
        domain: Its time domain.
    """

    __slots__ = ("domain", "timestamp")

    def __init__(self) -> None:
        self.timestamp = 0
        self.domain = TimeDomain.EVENT_TIME


class KeyedContext(KeyedProcessFunction.Context, KeyedCoProcessFunction.Context):
    """The context of an element of a keyed stream."""

    def __init__(self, backend: KeyedStateBackend, time: ChainTime, timers: UserTimers) -> None:
        self._backend = backend
        self._time = time
        self._timers = timers

    def get_current_key(self) -> Any:
        """Return the key of the element."""
        return self._backend.current_key

    def timestamp(self) -> int | None:
        """Return the timestamp of the element."""
        return self._time.timestamp

    def timer_service(self) -> TimerService:
        """Return the timer service."""
        return self._timers.service()


class KeyedOnTimerContext(KeyedContext, KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext):
    """The context of a firing timer."""

    def __init__(self, backend: KeyedStateBackend, time: ChainTime, timers: UserTimers, fired: FiredTimer) -> None:
        super().__init__(backend, time, timers)
        self._fired = fired

    def timestamp(self) -> int | None:
        """Return the timestamp of the timer."""
        return self._fired.timestamp

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""
        return self._fired.domain


def timer_handler(
    call: Callable[..., Any], output: Output, fired: FiredTimer, context: Any
) -> Callable[[int, TimeDomain], None]:
    """Return the function that calls `on_timer` with a timer's timestamp, and emits the results.

    Args:
        call: The function's `on_timer`.
        output: Receives the results.
        fired: Set to the timer that the context refers to.
        context: The context of the calls.
    """
    handle = process_handler(call, output, context)

    def fire(timestamp: int, domain: TimeDomain) -> None:
        fired.timestamp, fired.domain = timestamp, domain
        handle(timestamp)

    return fire


def keyed_context(
    function: Any, output: Output, time: ChainTime, backend: KeyedStateBackend, timers: InternalTimeServiceManager
) -> KeyedContext:
    """Return the context of a keyed process function's calls, and connect its timers to it."""
    user_timers, fired = UserTimers(timers), FiredTimer()
    context = KeyedContext(backend, time, user_timers)
    if has_on_timer(function):
        on_timer_context = KeyedOnTimerContext(backend, time, user_timers, fired)
        user_timers.fire_with(timer_handler(function.on_timer, output, fired, on_timer_context))
    return context


def reduce_handler(
    call: Callable[..., Any], emit: Emit, backend: KeyedStateBackend, type_info: TypeInformation | None
) -> Emit:
    """Return the function that merges each element into the result of its key, and emits the result."""
    state = reduce_state(backend, type_info)
    value, update = state.value, state.update

    def write(code: Code, element: str) -> list[str]:
        so_far, result = code.name("so_far"), code.name("result")
        return [
            f"{so_far} = {code.bind(value, 'value')}()",
            f"if {so_far} is None:",
            f"    {result} = {element}",
            "else:",
            f"    {result} = {code.bind(call, 'reduce')}({so_far}, {element})",
            f"    if {result} is None:",
            f"        raise {code.bind(_forgotten, 'forgotten')}()",
            f"{code.bind(update, 'update')}({result})",
            *code.apply(emit, result),
        ]

    return inlined(write)


def reduce_state(backend: KeyedStateBackend, type_info: TypeInformation | None) -> ValueState[Any]:
    """Return the state that holds the reduced value of each key."""
    return cast("ValueState[Any]", backend.get_partitioned_state(ValueStateDescriptor(REDUCE_STATE, type_info)))


def _forgotten() -> StateError:
    message = "The reduce function returned None, which would forget what was reduced so far."
    return StateError(message, where=f"state {REDUCE_STATE!r}", hint="return the merged value")

"""Functions directly behind key_by(), with state of the element's key at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.common.user_code.inlined_code import Code, inlined
from pystate.core.api.functions import KeyedCoProcessFunction, KeyedProcessFunction
from pystate.core.api.state import ValueState, ValueStateDescriptor
from pystate.core.api.time_domain import TimeDomain
from pystate.core.api.timer_service import TimerService
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.runtime.plan.chain import has_on_timer
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, ChainTime
from pystate.runtime.slot.operators.one_input import Emit, process_handler
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager
from pystate.runtime.slot.timers.timer_services import USER_TIMERS, SimpleTimerService

REDUCE_STATE = "_op_state"
"""The name of the state that holds the rolling result of reduce(), as in Flink's StreamGroupedReduceOperator."""


class UserTimers:
    """The timers of a process function, and what is done when they fire (Flink's KeyedProcessOperator).

    The service is made when it is first asked for, and at once where the function has an `on_timer`: restored timers fire.

    Args:
        timers: The operator's timer services.
    """

    def __init__(self, timers: InternalTimeServiceManager) -> None:
        self._timers = timers
        self._service: SimpleTimerService | None = None
        self._fire: Callable[[int, TimeDomain], None] = _ignore_timer

    def fire_with(self, fire: Callable[[int, TimeDomain], None]) -> None:
        """Set what is called with a timer's time and domain; without it they pass unnoticed."""
        self._fire = fire
        self.service()

    def service(self) -> TimerService:
        """Return the timers as the function sees them."""
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
    """Do as a function without an `on_timer` does."""


class FiredTimer:
    """Which timer a context of `on_timer` speaks of.

    Attributes:
        timestamp: The time it was registered for.
        domain: By which time it fires.
    """

    __slots__ = ("domain", "timestamp")

    def __init__(self) -> None:
        self.timestamp = 0
        self.domain = TimeDomain.EVENT_TIME


class KeyedContext(KeyedProcessFunction.Context, KeyedCoProcessFunction.Context):
    """The context of an element with a key."""

    def __init__(self, backend: KeyedStateBackend, time: ChainTime, timers: UserTimers) -> None:
        self._backend = backend
        self._time = time
        self._timers = timers

    def get_current_key(self) -> Any:
        """Return the key of the element."""
        return self._backend.current_key

    def timestamp(self) -> int | None:
        """Return the time of the element."""
        return self._time.timestamp

    def timer_service(self) -> TimerService:
        """Return what tells the time, and keeps timers."""
        return self._timers.service()


class KeyedOnTimerContext(KeyedContext, KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext):
    """The context of a timer that fires."""

    def __init__(self, backend: KeyedStateBackend, time: ChainTime, timers: UserTimers, fired: FiredTimer) -> None:
        super().__init__(backend, time, timers)
        self._fired = fired

    def timestamp(self) -> int | None:
        """Return the time of the timer."""
        return self._fired.timestamp

    def time_domain(self) -> TimeDomain:
        """Return by which time it fires."""
        return self._fired.domain


def timer_handler(
    call: Callable[..., Any], output: Output, fired: FiredTimer, context: Any
) -> Callable[[int, TimeDomain], None]:
    """Return what calls `on_timer` with a timer's time, and emits the results.

    Args:
        call: The function's `on_timer`.
        output: Takes the results.
        fired: What the context speaks of.
        context: Of the calls.
    """
    handle = process_handler(call, output, context)

    def fire(timestamp: int, domain: TimeDomain) -> None:
        fired.timestamp, fired.domain = timestamp, domain
        handle(timestamp)

    return fire


def keyed_context(
    function: Any, output: Output, time: ChainTime, backend: KeyedStateBackend, timers: InternalTimeServiceManager
) -> KeyedContext:
    """Return the context of the calls of a keyed process function, and have its timers call it."""
    user_timers, fired = UserTimers(timers), FiredTimer()
    context = KeyedContext(backend, time, user_timers)
    if has_on_timer(function):
        on_timer_context = KeyedOnTimerContext(backend, time, user_timers, fired)
        user_timers.fire_with(timer_handler(function.on_timer, output, fired, on_timer_context))
    return context


def reduce_handler(
    call: Callable[..., Any], emit: Emit, backend: KeyedStateBackend, type_info: TypeInformation | None
) -> Emit:
    """Return what merges each element into the result of its key, and emits that."""
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


class _FinalResult:
    """Emits what the elements of a key were reduced to, at the key's end."""

    def __init__(self, value: Callable[[], Any], emit: Emit) -> None:
        self._value = value
        self._emit = emit

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Emit it."""
        self._emit(self._value())

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """No timer by the clock is registered."""


def final_reduce_handler(
    call: Callable[..., Any],
    emit: Emit,
    backend: KeyedStateBackend,
    type_info: TypeInformation | None,
    timers: InternalTimeServiceManager,
) -> Emit:
    """Return what merges each element into the result of its key, and emits the last one at the end of event time.

    Source: PyFlink's reduce in BATCH mode, a timer of Flink's last watermark per key.
    """
    state = reduce_state(backend, type_info)
    value, update = state.value, state.update
    at_end = timers.get_internal_timer_service(USER_TIMERS, _FinalResult(value, emit))

    def run_final_reduce(element: Any) -> None:
        so_far = value()
        if so_far is None:
            at_end.register_event_time_timer(None, MAX_WATERMARK)
        else:
            element = call(so_far, element)
            if element is None:
                raise _forgotten()
        update(element)

    return run_final_reduce


def reduce_state(backend: KeyedStateBackend, type_info: TypeInformation | None) -> ValueState[Any]:
    """Return the state with what the elements of a key were reduced to."""
    return cast("ValueState[Any]", backend.get_partitioned_state(ValueStateDescriptor(REDUCE_STATE, type_info)))


def _forgotten() -> StateError:
    message = "The reduce function returned None, which would forget what was reduced so far."
    return StateError(message, where=f"state {REDUCE_STATE!r}", hint="return the merged value")

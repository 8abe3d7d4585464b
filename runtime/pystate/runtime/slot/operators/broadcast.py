"""Operators of functions over a stream and a broadcast stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from pystate.common.errors import StateDeclarationError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.functions import KeyedBroadcastProcessFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor
from pystate.core.api.timer_service import TimeDomain, TimerService
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.operator.broadcast_state import ReadOnlyBroadcastView
from pystate.runtime.plan.chain import has_on_timer
from pystate.runtime.slot.event_time.chain_time import ChainTime, ChainTimeReader
from pystate.runtime.slot.operators.keyed import FiredTimer, UserTimers, timer_handler
from pystate.runtime.slot.operators.one_input import callables, process_handler
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.timers.timer_services import UnkeyedTimerService


class _DeclaredStates:
    """The broadcast states that were declared with `broadcast(...)`.

    Args:
        descriptors: Their descriptors.
        make: Creates the state object for a descriptor.
        where: The operator's name in errors.
    """

    def __init__(
        self, descriptors: Iterable[MapStateDescriptor], make: Callable[[MapStateDescriptor], Any], where: str
    ) -> None:
        self._where = where
        self._states = {descriptor.name: (descriptor, make(descriptor)) for descriptor in descriptors}

    def get(self, descriptor: MapStateDescriptor) -> Any:
        """Return the state; called for every element, so an identical descriptor object is not compared."""
        declared, state = self._states.get(descriptor.name, (None, None))
        if declared is None or (declared is not descriptor and not _alike(declared, descriptor)):
            known = ", ".join(repr(one) for one, _ in self._states.values()) or "none"
            message = f"The broadcast state {descriptor!r} does not exist; declared are: {known}."
            raise StateDeclarationError(
                message,
                where=self._where,
                hint="check the descriptor for typos, or give it to broadcast(...) if you forgot to",
            )
        return state


def _alike(declared: MapStateDescriptor, asked: MapStateDescriptor) -> bool:
    return declared == asked and declared.key_type_info == asked.key_type_info


class _TimeContext(ChainTimeReader, KeyedBroadcastProcessFunction.BaseContext):
    """The time methods common to the contexts of both sides."""

    def timestamp(self) -> int | None:
        """Return the timestamp of the element."""
        return self._time.timestamp


class DataSideContext(_TimeContext, KeyedBroadcastProcessFunction.ReadOnlyContext):
    """The context of an element of the data stream."""

    def __init__(
        self, states: _DeclaredStates, time: ChainTime, backend: KeyedStateBackend | None, timers: UserTimers | None
    ) -> None:
        super().__init__(time)
        self._states = states
        self._backend = backend
        self._timers = timers

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a read-only broadcast state."""
        state: ReadOnlyBroadcastState[Any, Any] = self._states.get(state_descriptor)
        return state

    def get_current_key(self) -> Any:
        """Return the key of the element."""
        if self._backend is None:
            message = "The data stream of this broadcast function has no key."
            raise StateDeclarationError(message, hint="put key_by(...) before connect(...)")
        return self._backend.current_key

    def timer_service(self) -> TimerService:
        """Return the timer service."""
        return UnkeyedTimerService(self._time) if self._timers is None else self._timers.service()


class BroadcastOnTimerContext(DataSideContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of a firing timer."""

    def __init__(
        self,
        states: _DeclaredStates,
        time: ChainTime,
        backend: KeyedStateBackend,
        timers: UserTimers,
        fired: FiredTimer,
    ) -> None:
        super().__init__(states, time, backend, timers)
        self._fired = fired

    def timestamp(self) -> int | None:
        """Return the timestamp of the timer."""
        return self._fired.timestamp

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""
        return self._fired.domain


class BroadcastSideContext(_TimeContext, KeyedBroadcastProcessFunction.Context):
    """The context of a broadcast element."""

    def __init__(self, states: _DeclaredStates, time: ChainTime, backend: KeyedStateBackend | None) -> None:
        super().__init__(time)
        self._states = states
        self._backend = backend

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a broadcast state."""
        state: BroadcastState[Any, Any] = self._states.get(state_descriptor)
        return state

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        """Call `function(key, state)` for every key of this subtask that has a value in a keyed state."""
        if self._backend is None:
            message = f"There is no keyed state {state_descriptor.name!r}: the data stream has no key."
            raise StateDeclarationError(message, hint="put key_by(...) before connect(...)")
        self._backend.apply_to_all_keys(state_descriptor, function)


class BroadcastOperator(Operator):
    """Calls a function with the elements of a stream and of a broadcast stream."""

    kinds: ClassVar = (OperatorKind.BROADCAST_PROCESS, OperatorKind.KEYED_BROADCAST_PROCESS)
    is_broadcast: ClassVar = True

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        function, backend, time = self.spec.function, self.backend, self._time
        on_data, on_broadcast = callables(self.spec.kind, function)
        made = self.state.broadcast_state
        writable = _DeclaredStates(self.spec.descriptors, made, self._where)
        read_only = _DeclaredStates(
            self.spec.descriptors, lambda one: ReadOnlyBroadcastView(one.name, made(one)), self._where
        )
        user_timers = None if self.timers is None else UserTimers(self.timers)
        if backend is not None and user_timers is not None and has_on_timer(function):
            fired = FiredTimer()
            context = BroadcastOnTimerContext(read_only, time, backend, user_timers, fired)
            user_timers.fire_with(timer_handler(function.on_timer, output, fired, context))
        return [
            process_handler(on_data, output, DataSideContext(read_only, time, backend, user_timers)),
            process_handler(on_broadcast, output, BroadcastSideContext(writable, time, backend)),
        ]

    @override
    def _fire(self, advance: Callable[[int], int], time: int) -> None:
        self.state.read_only = True  # each subtask has different timers
        try:
            super()._fire(advance, time)
        finally:
            self.state.read_only = False

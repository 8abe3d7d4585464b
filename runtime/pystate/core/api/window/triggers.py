"""Triggers: when a window's function is called, and when its contents go. Names and behaviour are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Generic, cast

from pystate.common.errors import JobGraphError
from pystate.common.time import Duration, Time
from pystate.common.type_info import Types
from pystate.core.api.state import ReducingState, ReducingStateDescriptor, State, StateDescriptor
from pystate.core.api.type_variables import T, W
from pystate.core.api.window.windows import MAX_TIMESTAMP, TimeWindow, Window, checked_timestamp
from pystate.core.metrics.metric import MetricGroup


class TriggerResult(Enum):
    """What a trigger wants done: call the window's function, forget the contents, both or neither."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window's function is called, where the window has contents."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the contents are forgotten."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Says when a window is evaluated. One object serves all keys and windows, so it keeps state by its context only."""

    class TriggerContext(ABC):
        """What a trigger may ask; timers and state are those of the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group of the operator's metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the event time, ms since 1970."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called once the clock shows `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called once the watermark reaches `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Forget the timer at `time`."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Forget the timer at `time`."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Return a state of the current key and window."""

    class OnMergeContext(TriggerContext):
        """What a trigger may ask when windows are merged; the current window is the result."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge what a list, reducing or aggregating state has in the merged windows into the result's."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Say what is done after an element was added to a window; its timestamp is -2^63 where it has none."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Say what is done where a timer by the clock fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Say what is done where a timer by event time fires."""

    def can_merge(self) -> bool:
        """Return whether the trigger may be used with windows that merge."""
        return False

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Merge the trigger's state and register the timers of the result; for triggers that can merge.

        Raises:
            JobGraphError: This one can't.
        """
        message = f"{type(self).__name__} doesn't say what it does where windows merge: it has no on_merge()."
        raise JobGraphError(message)

    @abstractmethod
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Forget what the trigger keeps for a window that is gone: its state, its timers."""


def milliseconds(length: Time | Duration, what: str) -> int:
    """Return a length of time that a program has given, in ms.

    Args:
        length: The length.
        what: What errors call it.

    Raises:
        JobGraphError: It is none.
    """
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, Duration):
        return length.to_millis()
    message = f"{what} is a Time, such as Time.seconds(5), not {length!r}."
    raise JobGraphError(message)


class EventTimeTrigger(Trigger):
    """Fires once the watermark is past the window's end, and for each late element that is still allowed."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at once where the window's end is past; else wait for it."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the window's end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the result."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forget the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()


class ProcessingTimeTrigger(Trigger):
    """Fires once the clock is past the window's end."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Wait for the window's end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the result."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forget the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()


def _sum(first: int, second: int) -> int:
    return first + second


def _min(first: int, second: int) -> int:
    return min(first, second)


class _ContinuousTrigger(Trigger):
    """What the triggers that fire at an interval share: a window's next time to fire, kept in state.

    Args:
        interval: In ms.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", _min, Types.LONG())

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Continue with the earliest next time of the merged windows."""
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = self._fire_time(ctx).get()
        if next_fire is not None:
            self._register(next_fire, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forget the next time and its timer."""
        fire_time = self._fire_time(ctx)
        timestamp = fire_time.get()
        if timestamp is not None:
            self._delete(timestamp, ctx)
            fire_time.clear()

    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fire next an interval after `time`, at the end of the window at the latest."""
        next_fire = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire)
        self._register(next_fire, ctx)

    def _begin(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        fire_time = self._fire_time(ctx)
        if fire_time.get() is None:
            self.register_next_fire_timestamp(time - time % self.interval, window, ctx, fire_time)

    def _fire_if_due(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        fire_time = self._fire_time(ctx)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return TriggerResult.FIRE

    def _fire_time(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return cast("ReducingState[int]", ctx.get_partitioned_state(self.state_desc))

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None: ...

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None: ...


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires whenever the watermark passes a multiple of an interval, and at the window's end.

    The end of the global window is that of event time: it fires there, and not at the multiples without end before.
    """

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger:
        """Return the trigger."""
        return ContinuousEventTimeTrigger(milliseconds(interval, "The interval of a trigger"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at once where the window's end is past; else wait for it, and for the next multiple."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(checked_timestamp(timestamp), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the window's end and at multiples."""
        end = window.max_timestamp()
        if time == end:
            return TriggerResult.FIRE
        if end == MAX_TIMESTAMP == ctx.get_current_watermark():
            self._fire_time(ctx).clear()
            return TriggerResult.CONTINUE
        return self._fire_if_due(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires whenever the clock passes a multiple of an interval, and where it passes the window's end.

    A window of event time may live on behind that, and goes on to fire. (PyFlink's fires for its end again and again then,
    which is due as soon as it is registered: neither elements nor barriers get a turn.)
    """

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger:
        """Return the trigger."""
        return ContinuousProcessingTimeTrigger(milliseconds(interval, "The interval of a trigger"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Wait for the next multiple."""
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at multiples."""
        return self._fire_if_due(time, window, ctx)

    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fire next an interval after `time`, at the end of the window at the latest; behind that at the next multiple."""
        if time >= window.max_timestamp():
            now = max(time, ctx.get_current_processing_time())
            next_fire = now - now % self.interval + self.interval
            fire_timestamp_state.add(next_fire)
            self._register(next_fire, ctx)
        else:
            super().register_next_fire_timestamp(time, window, ctx, fire_timestamp_state)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class CountTrigger(Trigger):
    """Fires whenever a window has got so many elements.

    Args:
        window_size: How many.
    """

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_state_descriptor = ReducingStateDescriptor("count", _sum, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return the trigger."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Count, and fire where there are enough."""
        count = self._count(ctx)
        count.add(1)
        so_far = count.get()
        if so_far is None or so_far < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Add the counts of the merged windows."""
        ctx.merge_partitioned_state(self._count_state_descriptor)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forget the count."""
        self._count(ctx).clear()

    def _count(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return cast("ReducingState[int]", ctx.get_partitioned_state(self._count_state_descriptor))


class PurgingTrigger(Trigger):
    """Does as another trigger, and forgets the contents whenever that fires.

    Args:
        nested_trigger: The other one.
    """

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Return the trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do as the other one."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do as the other one."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do as the other one."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Return what the other one does."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Do as the other one."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Do as the other one."""
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class NeverTrigger(Trigger):
    """Never fires; what the global window has where no other trigger is set."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Do nothing."""

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Do nothing."""

"""Triggers: when a window fires, and when its contents are purged. Names and behaviour are PyFlink's."""

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
    """The decision of a trigger: fire the window, purge its contents, both or neither."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window's function is called, provided the window has contents."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the contents are purged."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Determines when a window fires. One object serves all keys and windows, so its state must be kept in the context."""

    class TriggerContext(ABC):
        """The context of a trigger; timers and state are those of the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group of the operator's metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the current watermark, ms since 1970."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Register a processing-time timer at `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Register an event-time timer at `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete the timer at `time`."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete the timer at `time`."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Return a state of the current key and window."""

    class OnMergeContext(TriggerContext):
        """The context of a trigger when windows are merged; the current window is the result."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge a list, reducing or aggregating state of the merged windows into that of the result."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide what to do after an element was added to a window; its timestamp is -2^63 if it has none."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide what to do when a processing-time timer fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide what to do when an event-time timer fires."""

    def can_merge(self) -> bool:
        """Return whether the trigger supports merging windows."""
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
        """Clear the trigger's state and timers of a window that is removed."""


def milliseconds(length: Time | Duration, what: str) -> int:
    """Return a length of time given by the program, in ms.

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
    """Fires when the watermark passes the window's end, and for each late element within the allowed lateness."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at once if the watermark has passed the window's end; else register a timer."""
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
    """Fires when processing time passes the window's end."""

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
    """The base of triggers that fire at an interval: a window's next firing time is kept in state.

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
        """Use the earliest next firing time of the merged windows."""
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = self._fire_time(ctx).get()
        if next_fire is not None:
            self._register(next_fire, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Clear the next firing time and its timer."""
        fire_time = self._fire_time(ctx)
        timestamp = fire_time.get()
        if timestamp is not None:
            self._delete(timestamp, ctx)
            fire_time.clear()

    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Schedule the next firing an interval after `time`, but not after the window's end."""
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

    The global window ends with event time: it fires there, and not at all the multiples before.
    """

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger:
        """Return the trigger."""
        return ContinuousEventTimeTrigger(milliseconds(interval, "The interval of a trigger"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at once if the window's end has passed; else register timers for the end and the next multiple."""
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
    """Fires whenever processing time passes a multiple of an interval, and at the window's end.

    An event-time window may live longer, and continues to fire. (PyFlink's trigger then fires for the window's end again and
    again, since that timer is due as soon as it is registered: elements and barriers are starved.)
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
        """Schedule the next firing an interval after `time`, at most at the window's end; then at the next multiple."""
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
    """Fires whenever a window has received a number of elements.

    Args:
        window_size: The number of elements.
    """

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_state_descriptor = ReducingStateDescriptor("count", _sum, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return the trigger."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Count the element, and fire if the number is reached."""
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
    """Wraps another trigger, and purges the contents whenever that fires.

    Args:
        nested_trigger: The other trigger.
    """

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Return the trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Delegate, and turn FIRE into FIRE_AND_PURGE."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Delegate, and turn FIRE into FIRE_AND_PURGE."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Delegate, and turn FIRE into FIRE_AND_PURGE."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Delegate."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Delegate."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Delegate."""
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class NeverTrigger(Trigger):
    """Never fires; the default trigger of the global window."""

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

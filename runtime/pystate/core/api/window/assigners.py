"""Window assigners, which assign elements to windows. Names and behaviour are PyFlink's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from operator import index
from typing import Any, Generic

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.overrides import override
from pystate.common.serializer import TypeSerializer
from pystate.common.time import Duration, Time
from pystate.common.type_info import Types
from pystate.core.api.functions import RuntimeContext
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.type_variables import W2, T, W
from pystate.core.api.window.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    milliseconds,
)
from pystate.core.api.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    MergeCallback,
    TimeWindow,
    TimeWindowSerializer,
    checked_timestamp,
)

Length = Time | Duration


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns elements to windows."""

    class WindowAssignerContext(ABC):
        """The context of an assigner."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the operator's runtime context; its states are those of the element's key."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Collection[Any]:
        """Return the windows of an element; its timestamp is -2^63 where it has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that is used if the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[Any]:
        """Return the serializer of the windows: equal windows must have equal bytes."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the windows are in event time."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can be merged."""

    class MergeCallback(MergeCallback[W2]):
        """Is called for each merge of windows."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: MergingWindowAssigner.MergeCallback) -> None:
        """Determine which windows are merged and call the callback for each merge."""


class _TimeWindows(WindowAssigner):
    """The base of assigners of time windows."""

    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that fires at a window's end."""
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """Return the serializer of time windows."""
        return TimeWindowSerializer()


class _EventTime(WindowAssigner):
    def is_event_time(self) -> bool:
        """Return True."""
        return True

    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        return checked_timestamp(timestamp)


class _ProcessingTime(WindowAssigner):
    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        return context.get_current_processing_time()


class _TumblingWindows(_TimeWindows):
    """Tumbling windows.

    Args:
        size: In ms.
        offset: The start of one window, ms since 1970.
    """

    def __init__(self, size: int, offset: int = 0) -> None:
        if abs(offset) >= size:
            message = f"{type(self).__name__}: the offset ({offset} ms) must be smaller than the size ({size} ms)."
            raise JobGraphError(message)
        self._size = size
        self._offset = offset

    @property
    def panes(self) -> tuple[int, int]:
        """Size and offset of panes in ms: all times in a pane belong to the same windows."""
        return self._size, self._offset

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the window of the timestamp."""
        start = TimeWindow.get_window_start_with_offset(self._time(timestamp, context), self._offset, self._size)
        return (TimeWindow(start, start + self._size),)

    @abstractmethod
    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int: ...

    def __repr__(self) -> str:
        """Return size and offset."""
        return f"{type(self).__name__}({self._size}, {self._offset})"


class TumblingEventTimeWindows(_EventTime, _TumblingWindows):
    """Tumbling event-time windows."""

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows:
        """Return tumbling windows of a size and offset."""
        return TumblingEventTimeWindows(milliseconds(size, "The size of windows"), _offset(offset))


class TumblingProcessingTimeWindows(_ProcessingTime, _TumblingWindows):
    """Tumbling processing-time windows."""

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows:
        """Return tumbling windows of a size and offset."""
        return TumblingProcessingTimeWindows(milliseconds(size, "The size of windows"), _offset(offset))


def _offset(offset: Length | None) -> int:
    return 0 if offset is None else milliseconds(offset, "The offset of windows")


class _SlidingWindows(_TimeWindows):
    """Sliding windows.

    Args:
        size: In ms.
        slide: The interval in ms.
        offset: The start of one window, ms since 1970.
    """

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        if abs(offset) >= slide or size <= 0:
            message = (
                f"{type(self).__name__}: the offset ({offset} ms) must be smaller than the slide ({slide} ms), and the size "
                f"({size} ms) above 0."
            )
            raise JobGraphError(message)
        self._size = size
        self._slide = slide
        self._offset = offset

    @property
    def size(self) -> int:
        """How long a window is, ms."""
        return self._size

    @property
    def slide(self) -> int:
        """The distance between the starts of windows, ms."""
        return self._slide

    @property
    def panes(self) -> tuple[int, int]:
        """Size and offset of panes in ms: all times in a pane belong to the same windows."""
        return math.gcd(self._size, self._slide), self._offset

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return all windows of the timestamp, the latest first; none if it falls between two windows."""
        time = self._time(timestamp, context)
        last = TimeWindow.get_window_start_with_offset(time, self._offset, self._slide)
        return [TimeWindow(start, start + self._size) for start in range(last, time - self._size, -self._slide)]

    @abstractmethod
    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int: ...

    def __repr__(self) -> str:
        """Return size, slide and offset."""
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class SlidingEventTimeWindows(_EventTime, _SlidingWindows):
    """Sliding event-time windows."""

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows:
        """Return sliding windows of a size, slide and offset."""
        return SlidingEventTimeWindows(
            milliseconds(size, "The size of windows"), milliseconds(slide, "The slide of windows"), _offset(offset)
        )


class SlidingProcessingTimeWindows(_ProcessingTime, _SlidingWindows):
    """Sliding processing-time windows."""

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        """Return sliding windows of a size, slide and offset."""
        return SlidingProcessingTimeWindows(
            milliseconds(size, "The size of windows"), milliseconds(slide, "The slide of windows"), _offset(offset)
        )


class SessionWindowTimeGapExtractor(ABC):
    """Determines the session gap of an element."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in ms, above 0."""


class _SessionWindows(_TimeWindows, MergingWindowAssigner):
    """Session windows, which grow as long as elements come within a gap."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the window from the element to the end of its gap."""
        time = self._time(timestamp, context)
        return (TimeWindow(time, time + self.gap_of(element)),)

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    @abstractmethod
    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int: ...

    @abstractmethod
    def gap_of(self, element: Any) -> int:
        """Return the gap after an element, ms, above 0."""


class _FixedGap(_SessionWindows):
    """Session windows with a fixed gap.

    Args:
        session_gap: In ms.
    """

    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            message = f"{type(self).__name__}: the gap must be above 0, not {session_gap} ms."
            raise JobGraphError(message)
        self._session_gap = session_gap

    @override
    def gap_of(self, element: Any) -> int:
        return self._session_gap

    def __repr__(self) -> str:
        """Return the gap."""
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicGap(_SessionWindows):
    """Session windows whose gap depends on the element.

    Args:
        session_window_time_gap_extractor: Determines the gap.
    """

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._extractor = session_window_time_gap_extractor

    @override
    def gap_of(self, element: Any) -> int:
        gap = self._extractor.extract(element)
        try:
            milliseconds = index(gap)  # numpy's integers are some, too
        except TypeError:
            milliseconds = 0
        if milliseconds <= 0:
            message = f"The gap of a session must be an integer above 0: {gap!r} ms for {element!r}."
            raise RecordError(message)
        return milliseconds

    def __repr__(self) -> str:
        """Return the extractor's class."""
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class DynamicEventTimeSessionWindows(_EventTime, _DynamicGap):
    """Event-time session windows whose gap depends on the element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return session windows whose gap the extractor determines."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_ProcessingTime, _DynamicGap):
    """Processing-time session windows whose gap depends on the element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return session windows whose gap the extractor determines."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_EventTime, _FixedGap):
    """Event-time session windows."""

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows:
        """Return session windows that end after this time without elements."""
        return EventTimeSessionWindows(milliseconds(size, "The gap of sessions"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return session windows whose gap the extractor determines."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_ProcessingTime, _FixedGap):
    """Processing-time session windows."""

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """Return session windows that end after this time without elements."""
        return ProcessingTimeSessionWindows(milliseconds(size, "The gap of sessions"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return session windows whose gap the extractor determines."""
        return DynamicProcessingTimeSessionWindows(extractor)


class GlobalWindows(_ProcessingTime):
    """Assigns all elements of a key to one window, which fires only by the trigger that the program sets."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        """Return the global window."""
        return (GlobalWindow(),)

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that never fires."""
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        """Return the serializer of the global window."""
        return GlobalWindowSerializer()

    def __repr__(self) -> str:
        """Return the name."""
        return "GlobalWindows()"


class _CountWindows(_ProcessingTime):
    """The base of count windows: the number of a key's elements is kept in state.

    Args:
        size: The number of elements of a window.
        slide: The number of elements after which the next window begins.
        counter: The name of the state.
    """

    def __init__(self, size: int, slide: int, counter: str) -> None:
        for name, number in (("size", size), ("slide", slide)):
            if not isinstance(number, int) or number < 1:
                message = f"{type(self).__name__}: the {name} is a number of elements from 1 on, not {number!r}."
                raise JobGraphError(message)
        self._window_size = size
        self._window_slide = slide
        self._count_descriptor = ValueStateDescriptor(counter, Types.LONG())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        """Count the element, and return its windows, the latest first."""
        counter = context.get_runtime_context().get_state(self._count_descriptor)
        count: int = counter.value() or 0
        counter.update(count + 1)
        last = count // self._window_slide
        first = max(0, (count - self._window_size) // self._window_slide + 1)
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that fires and purges a window when it is full: no more elements follow."""
        return PurgingTrigger(CountTrigger(self._window_size))

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        """Return the serializer of count windows."""
        return CountWindowSerializer()


class CountTumblingWindowAssigner(_CountWindows):
    """Tumbling count windows.

    Args:
        window_size: The number of elements of a window.
    """

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return the assigner."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        """Return the size."""
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindows):
    """Sliding count windows.

    Args:
        window_size: The number of elements of a window.
        window_slide: The number of elements after which the next window begins.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return the assigner."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        """Return size and slide."""
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"

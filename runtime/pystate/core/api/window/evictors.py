"""Evictors: which elements of a window count when it fires. PyFlink has none; the names are those of Flink's Java API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystate.common.time import Duration, Time
from pystate.core.api.window.triggers import milliseconds


@dataclass(frozen=True)
class TimestampedValue:
    """An element of a window with its time.

    Attributes:
        value: The element.
        timestamp: Its time, ms since 1970; None if it has none.
    """

    value: Any
    timestamp: int | None = None


class Evictor(ABC):
    """Takes elements out of a window, in front of its function or behind it.

    A window with an evictor keeps all its elements. Both methods take elements out of the list they are given.
    """

    class EvictorContext(ABC):
        """What an evictor may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the event time, ms since 1970."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Take elements out in front of the window's function.

        Args:
            elements: Those of the window, in the order they came.
            size: How many they are.
            window: The window.
            evictor_context: Tells the time.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Take elements out behind the window's function; see `evict_before`."""


class _OnceEvictor(Evictor):
    """What evictors share that do the same in front of the function or behind it.

    Args:
        do_evict_after: Behind it.
    """

    def __init__(self, *, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Take elements out in front of the window's function."""
        if not self._do_evict_after:
            self._evict(elements, size)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Take elements out behind the window's function."""
        if self._do_evict_after:
            self._evict(elements, size)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue], size: int) -> None: ...


class CountEvictor(_OnceEvictor):
    """Keeps the last elements.

    Args:
        max_count: How many.
        do_evict_after: Behind the window's function.
    """

    def __init__(self, max_count: int, *, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:  # noqa: FBT001, FBT002 - Flink's signature
        """Return the evictor."""
        return CountEvictor(max_count, do_evict_after=do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        del elements[: max(0, size - self._max_count)]


class DeltaEvictor(_OnceEvictor):
    """Keeps the elements that are less than a threshold from the last one.

    Args:
        threshold: The threshold.
        delta_function: (element, last element) -> how far apart they are.
        do_evict_after: Behind the window's function.
    """

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], *, do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self._threshold = threshold
        self._delta = delta_function

    @staticmethod
    def of(
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,  # noqa: FBT001, FBT002
    ) -> DeltaEvictor:
        """Return the evictor."""
        return DeltaEvictor(threshold, delta_function, do_evict_after=do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [one for one in elements if self._delta(one.value, last) < self._threshold]


class TimeEvictor(_OnceEvictor):
    """Keeps the elements that are less than a length of time older than the newest; nothing goes where they have no time.

    Args:
        window_size: The length in ms.
        do_evict_after: Behind the window's function.
    """

    def __init__(self, window_size: int, *, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor:  # noqa: FBT001, FBT002
        """Return the evictor."""
        return TimeEvictor(milliseconds(window_size, "The size of an evictor"), do_evict_after=do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        times = [one.timestamp for one in elements if one.timestamp is not None]
        if times and elements[0].timestamp is not None:
            limit = max(times) - self._window_size
            elements[:] = [one for one in elements if one.timestamp is None or one.timestamp > limit]

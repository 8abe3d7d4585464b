"""Evictors, which remove elements from a window when it fires. PyFlink has none; names are those of Flink's Java API."""

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
    """Removes elements from a window, before or after its function is called.

    A window with an evictor keeps all its elements. Both methods remove elements from the list they are given.
    """

    class EvictorContext(ABC):
        """The context of an evictor."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the current watermark, ms since 1970."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove elements before the window's function is called.

        Args:
            elements: The elements of the window, in order of arrival.
            size: Their number.
            window: The window.
            evictor_context: Tells the time.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove elements after the window's function was called; see `evict_before`."""


class _OnceEvictor(Evictor):
    """The base of evictors that evict either before or after the window's function.

    Args:
        do_evict_after: Whether to evict after the function.
    """

    def __init__(self, *, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove elements before the window's function is called."""
        if not self._do_evict_after:
            self._evict(elements, size)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove elements after the window's function was called."""
        if self._do_evict_after:
            self._evict(elements, size)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue], size: int) -> None: ...


class CountEvictor(_OnceEvictor):
    """Keeps the latest elements, up to a number.

    Args:
        max_count: The number of elements to keep.
        do_evict_after: Whether to evict after the window's function.
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
        do_evict_after: Whether to evict after the window's function.
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
    """Keeps the elements that are less than a length of time older than the newest; keeps all if they have no timestamps.

    Args:
        window_size: The length in ms.
        do_evict_after: Whether to evict after the window's function.
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

"""Functions of windows, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from pystate.core.api.functions import Function, KeyedStateStore
from pystate.core.api.type_variables import IN, KEY, OUT, W2, W


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """What a window's elements come to."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield what the window emits.

        Args:
            key: The key.
            window: The window.
            inputs: Its elements; behind `reduce` and `aggregate` their one result.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """What a window's elements come to, with time and state at hand."""

    class Context(ABC, Generic[W2]):
        """What is known of the current window."""

        @abstractmethod
        def window(self) -> Any:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the event time, ms since 1970."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the states of the current key and window; `clear` must clear them. Windows that merge have none."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the states of the current key, which all its windows share."""

    @abstractmethod
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield what the window emits; see `WindowFunction.apply`."""

    def clear(self, context: ProcessWindowFunction.Context) -> None:  # noqa: B027 - optional hook
        """Clear the window's states; called when the window is gone."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """What the elements of a window over a stream without a key come to."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield what the window emits; see `WindowFunction.apply`."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """What the elements of a window over a stream without a key come to, with time and state at hand."""

    class Context(ABC, Generic[W2]):
        """What is known of the current window."""

        @abstractmethod
        def window(self) -> Any:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the states of the current window; `clear` must clear them. Windows that merge have none."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the states that all windows share."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield what the window emits; see `WindowFunction.apply`."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:  # noqa: B027 - optional hook
        """Clear the window's states; called when the window is gone."""

"""Window functions, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from pystate.core.api.functions import Function, KeyedStateStore
from pystate.core.api.type_variables import IN, KEY, OUT, W2, W


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes the result of a window of a keyed stream."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the results of the window.

        Args:
            key: The key.
            window: The window.
            inputs: Its elements; after `reduce` and `aggregate`, their single result.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes the result of a window of a keyed stream, with access to time and state."""

    class Context(ABC, Generic[W2]):
        """The context of the current window."""

        @abstractmethod
        def window(self) -> Any:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the current processing time, ms since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark, ms since 1970."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the states of the current key and window, to be cleared by `clear`; not for merging windows."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the states of the current key that all its windows share."""

    @abstractmethod
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the results of the window; see `WindowFunction.apply`."""

    def clear(self, context: ProcessWindowFunction.Context) -> None:  # noqa: B027 - optional hook
        """Clear the window's states; called when the window is removed."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes the result of a window of a non-keyed stream."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the results of the window; see `WindowFunction.apply`."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes the result of a window of a non-keyed stream, with access to time and state."""

    class Context(ABC, Generic[W2]):
        """The context of the current window."""

        @abstractmethod
        def window(self) -> Any:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the states of the current window, to be cleared by `clear`; not for merging windows."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the states that all windows share."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the results of the window; see `WindowFunction.apply`."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:  # noqa: B027 - optional hook
        """Clear the window's states; called when the window is removed."""

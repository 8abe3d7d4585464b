"""Functions over pairs of elements of two keyed streams. Names are those of Flink's Java API; PyFlink has none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from pystate.core.api.functions import Function
from pystate.core.api.type_variables import IN1, IN2, OUT


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Two elements that belong together in, one out."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return what comes of an element of the first and one of the second stream."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Two elements that belong together in, any number out."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return or yield what comes of an element of the first and one of the second stream."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """All elements of a key and a window in, of two streams, any number out."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Return or yield what comes of the elements of both streams; one of the lists may be empty."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Two elements whose times are close enough in, any number out; `tag, value` goes to a side output."""

    class Context(ABC):
        """What is known about the pair in hand."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the time of the left element, ms since 1970."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the time of the right element, ms since 1970."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the time of what the pair comes to, ms since 1970: the later of the two."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Process one pair; yield or return what goes on downstream."""

"""Functions over pairs of elements of two keyed streams. Names are those of Flink's Java API; PyFlink has none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from pystate.core.api.functions import Function
from pystate.core.api.type_variables import IN1, IN2, OUT


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Joins a pair of elements into one element."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the result for a pair: an element of the first and one of the second stream."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Joins a pair of elements into any number of elements."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return or yield the results for a pair: an element of the first and one of the second stream."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Processes all elements of a key and window, of two streams."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Return or yield the results for the elements of both streams; one of the lists may be empty."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Processes pairs of elements whose times are close enough; yield `tag, value` for a side output."""

    class Context(ABC):
        """Information about the current pair."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the time of the left element, ms since 1970."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the time of the right element, ms since 1970."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the time of the results, ms since 1970: the later of the two."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Process one pair; yield or return the output."""

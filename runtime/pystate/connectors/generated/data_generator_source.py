"""A source that generates elements by a function of a number, at a given rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation
from pystate.connectors.generated.iterator_source import NumberSequenceSplit, RangeReader, restore_split, split_range
from pystate.connectors.source import (
    Boundedness,
    Source,
    SourceClock,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from pystate.connectors.splits_on_request import SplitsOnRequest

_LONG_MAX = (1 << 63) - 1


class GeneratorFunction(ABC):
    """Makes elements from numbers; a plain function works as well."""

    @abstractmethod
    def map(self, value: int) -> Any:
        """Return the element for a number."""


class RateLimiterStrategy:
    """The rate limit of a source, for all subtasks together.

    Args:
        per_second: Elements a second; None for as fast as the job takes them.

    Raises:
        JobGraphError: It isn't above 0.
    """

    def __init__(self, per_second: float | None) -> None:
        if per_second is not None and not per_second > 0:
            message = f"RateLimiterStrategy.per_second({per_second!r}): a rate is above 0."
            raise JobGraphError(message)
        self.rate = per_second

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Limit the rate to this number of elements per second."""
        return RateLimiterStrategy(records_per_second)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Set no limit."""
        return RateLimiterStrategy(None)


class Pace:
    """The rate limiter of one subtask, with bursts of at most one second's elements.

    Args:
        per_second: The subtask's share of the rate.
        clock: Returns the time.
    """

    def __init__(self, per_second: float, clock: SourceClock) -> None:
        self._rate = per_second
        self._clock = clock
        self._saved = min(1.0, per_second)
        self._at = clock.now_ms()

    def allowed(self, wanted: int) -> int:
        """Return how many of `wanted` elements may be emitted now; they count as emitted."""
        now = self._clock.now_ms()
        self._saved = min(max(1.0, self._rate), self._saved + self._rate * max(0, now - self._at) / 1000)
        self._at = now
        count = min(wanted, int(self._saved))
        self._saved -= count
        return count

    def next_at(self) -> int:
        """Return when the next element may be emitted, ms since 1970."""
        return self._at + int(max(0.0, 1.0 - self._saved) * 1000 / self._rate) + 1


class DataGeneratorSource(Source[Any, NumberSequenceSplit]):
    """Elements that a function makes from 0, 1, 2, ... Names and order of arguments are those of Flink's Java class.

    A number's element is made again after a failure: a function that gives the same one each time makes the source
    exactly-once.

    Args:
        generator_function: A `GeneratorFunction`, or a function of a number.
        count: The number of elements; None for an unbounded source.
        rate_limiter_strategy: How fast; None for as fast as the job takes them.
        type_info: The type of the elements; without it they travel pickled.
    """

    def __init__(
        self,
        generator_function: GeneratorFunction | Callable[[int], Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        if not (isinstance(generator_function, GeneratorFunction) or callable(generator_function)):
            message = f"DataGeneratorSource() takes a function of a number, not {generator_function!r}."
            raise JobGraphError(message)
        self._function = generator_function
        self._count = count
        self._rate = (rate_limiter_strategy or RateLimiterStrategy.no_op()).rate
        self.produced_type = type_info
        self._clock = SourceClock()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED if a count is given."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def create_enumerator(
        self, context: SplitEnumeratorContext[NumberSequenceSplit]
    ) -> SplitEnumerator[NumberSequenceSplit]:
        """Split the numbers into one part per subtask."""
        last = _LONG_MAX if self._count is None else self._count - 1
        return SplitsOnRequest(context, split_range(0, last, context.current_parallelism()))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[NumberSequenceSplit], checkpoint: Any
    ) -> SplitEnumerator[NumberSequenceSplit]:
        """Resume with the unassigned parts."""
        return SplitsOnRequest(context, [restore_split(plain) for plain in checkpoint])

    def create_reader(self, context: SourceReaderContext) -> RangeReader:
        """Return a reader that makes the elements."""
        function = self._function
        element = function.map if isinstance(function, GeneratorFunction) else function
        if self._rate is None:
            return RangeReader(context, element)
        pace = Pace(self._rate / context.current_parallelism(), self._clock)
        return RangeReader(context, element, pace.allowed, pace.next_at)

    def restore_split(self, plain: Any) -> NumberSequenceSplit:
        """Return a part of a checkpoint."""
        return restore_split(plain)

"""A source of a sequence of numbers."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.generated.iterator_source import NumberSequenceSplit, RangeReader, restore_split, split_range
from pystate.connectors.source import Boundedness, Source, SourceReaderContext, SplitEnumerator, SplitEnumeratorContext
from pystate.connectors.splits_on_request import SplitsOnRequest

_LONG_MAX = (1 << 63) - 1


class NumberSequenceSource(Source[int, NumberSequenceSplit]):
    """An inclusive range of numbers; the type is LONG.

    Each subtask reads a part in order, so a single subtask reads all in order.

    Args:
        start: The first number.
        end: The last number; the source is empty if it is below `start`.

    Raises:
        JobGraphError: A bound isn't a LONG.
    """

    produced_type: TypeInformation = Types.LONG()

    def __init__(self, start: int, end: int) -> None:
        for bound in (start, end):
            if isinstance(bound, bool) or not isinstance(bound, int) or not -_LONG_MAX - 1 <= bound <= _LONG_MAX:
                message = f"NumberSequenceSource({start!r}, {end!r}): {bound!r} is no LONG."
                raise JobGraphError(message)
        self._start = start
        self._end = end

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(
        self, context: SplitEnumeratorContext[NumberSequenceSplit]
    ) -> SplitEnumerator[NumberSequenceSplit]:
        """Split the sequence into one part per subtask."""
        return SplitsOnRequest(context, split_range(self._start, self._end, context.current_parallelism()))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[NumberSequenceSplit], checkpoint: Any
    ) -> SplitEnumerator[NumberSequenceSplit]:
        """Resume with the unassigned parts."""
        return SplitsOnRequest(context, [restore_split(plain) for plain in checkpoint])

    def create_reader(self, context: SourceReaderContext) -> RangeReader:
        """Return a reader of parts."""
        return RangeReader(context)

    def restore_split(self, plain: Any) -> NumberSequenceSplit:
        """Return the part from its plain form."""
        return restore_split(plain)

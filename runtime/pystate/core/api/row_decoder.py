"""Conversion of a source's rows to elements, if rows are not the elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.api.output_tag import OutputTag
    from pystate.core.metrics.metric import MetricGroup


class DecodingContext(Protocol):
    """What a decoder may use beside rows."""

    def metric_group(self) -> MetricGroup:
        """Return the metric group of the source."""

    def collect_side(self, tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit an element to a side output of the source."""


class RowDecoder(Protocol):
    """Converts rows to elements; is sent to the workers.

    Attributes:
        makes_several: Whether each row gives a list of elements, possibly none, instead of one that may be None.
    """

    makes_several: bool

    def decode(self, batch: pa.RecordBatch, context: DecodingContext) -> Iterator[tuple[Any, int | None]]:
        """Yield (element or elements, time in ms since 1970) of each row; the time may be None."""

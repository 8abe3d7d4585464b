"""Conversion of a source's rows to elements, if rows are not the elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class RowDecoder(Protocol):
    """Converts rows to elements; is sent to the workers."""

    def decode(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, int | None]]:
        """Yield (element, time in ms since 1970) of each row; either may be None."""

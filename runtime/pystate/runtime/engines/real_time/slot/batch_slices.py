"""Splits batches into slices that take a few milliseconds, however long a function takes per element."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

SLICE_S = 0.005
"""The target duration of a slice, for which a barrier or a notification may have to wait."""
_MOST_ROWS = 1 << 16
_MOST_GROWTH = 4.0


class BatchSlices:
    """Splits batches according to the duration of earlier slices; the very first slice is one row.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._rows = 1

    def of(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the slices of a batch; the caller asks for the next slice when it has processed one."""
        start = 0
        while start < batch.num_rows:
            rows = batch.slice(start, self._rows)
            start += rows.num_rows
            began = self._clock()
            yield rows
            took = self._clock() - began
            if rows.num_rows == self._rows or took > SLICE_S:
                growth = min(_MOST_GROWTH, SLICE_S / max(took, 1e-6))
                self._rows = max(1, min(_MOST_ROWS, int(rows.num_rows * growth)))

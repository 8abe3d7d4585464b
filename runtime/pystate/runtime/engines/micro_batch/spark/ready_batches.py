"""A buffer for the output of a stage that Spark has not taken yet."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput

_TAG = 0


class ReadyBatches:
    """Buffers record batches of one schema in order: in memory up to a bound, beyond it in a file.

    A stage empties it between two elements, so only the output for a single element can exceed the bound.

    Args:
        memory_bound: Bytes held in memory; a single batch may be larger.

    Attributes:
        in_memory: The batches held in memory, always the same list; empty if none waits.
    """

    def __init__(self, memory_bound: int) -> None:
        self._memory_bound = memory_bound
        self.in_memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled: KeptOutput | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        if not self.in_memory or (self._spilled is None and self._bytes + batch.nbytes <= self._memory_bound):
            self._bytes += batch.nbytes
            self.in_memory.append(batch)
            return
        if self._spilled is None:
            self._spilled = KeptOutput(0)
        self._spilled.append(_TAG, batch.serialize().to_pybytes(), batch.num_rows)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield and remove all batches, the oldest first."""
        batches, spilled = list(self.in_memory), self._spilled
        self.in_memory.clear()
        self._bytes, self._spilled = 0, None
        yield from batches
        if spilled is not None:
            try:
                for data in spilled.batches(_TAG):
                    yield pa.ipc.read_record_batch(pa.py_buffer(data), batches[0].schema)
            finally:
                spilled.close()

    def close(self) -> None:
        """Drop all batches."""
        self.in_memory.clear()
        if self._spilled is not None:
            self._spilled.close()
            self._spilled = None

"""What a stage has made and not yet handed to Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput

_TAG = 0


class ReadyBatches:
    """Record batches of one schema, in the order they came: in memory up to a bound, in a file past it.

    A stage hands them on between two elements; only what a function makes of one element can be more than the bound.

    Args:
        memory_bound: Bytes held in memory; a single batch may be more.

    Attributes:
        in_memory: Those held in memory, always the same list; empty where none waits.
    """

    def __init__(self, memory_bound: int) -> None:
        self._memory_bound = memory_bound
        self.in_memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled: KeptOutput | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Let a batch wait."""
        if not self.in_memory or (self._spilled is None and self._bytes + batch.nbytes <= self._memory_bound):
            self._bytes += batch.nbytes
            self.in_memory.append(batch)
            return
        if self._spilled is None:
            self._spilled = KeptOutput(0)
        self._spilled.append(_TAG, batch.serialize().to_pybytes(), batch.num_rows)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield what waits, the oldest first."""
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
        """Drop what waits."""
        self.in_memory.clear()
        if self._spilled is not None:
            self._spilled.close()
            self._spilled = None

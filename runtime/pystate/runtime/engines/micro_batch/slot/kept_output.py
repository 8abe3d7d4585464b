"""The output of a subtask's last epoch, kept until the next epoch begins, in memory up to a bound and beyond it on disk."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import IO

from pystate.common.errors import ControlError

Chunk = bytes | tuple[int, int]
"""The bytes of one record batch, or their position in the spill file: (offset, length)."""


class KeptOutput:
    """Serialized record batches by output tag, in the order they were written.

    Args:
        memory_bound: Bytes held in memory; further batches go to an unnamed file.
        directory: The directory of that file.
    """

    def __init__(self, memory_bound: int, directory: str | None = None) -> None:
        self._memory_bound = memory_bound
        self._directory = directory
        self._chunks: dict[int, list[Chunk]] = {}
        self._in_memory = 0
        self._spill: IO[bytes] | None = None
        self.rows = 0
        self.rows_by_tag: Counter[int] = Counter()
        self.spilled_bytes = 0

    def append(self, tag: int, data: bytes, rows: int) -> None:
        """Keep one batch."""
        chunks = self._chunks.setdefault(tag, [])
        self.rows += rows
        self.rows_by_tag[tag] += rows
        if self._in_memory + len(data) <= self._memory_bound:
            self._in_memory += len(data)
            chunks.append(data)
            return
        if self._spill is None:
            self._spill = tempfile.TemporaryFile(dir=self._directory, prefix="kept-output-", buffering=0)
        offset = self._spill.seek(0, 2)
        rest = memoryview(data)
        while rest:  # one system call writes at most 2 GiB
            rest = rest[self._spill.write(rest) :]
        self.spilled_bytes += len(data)
        chunks.append((offset, len(data)))

    def batches(self, tag: int) -> Iterator[bytes]:
        """Yield the batches of one output.

        Raises:
            EOFError: The output was dropped meanwhile.
        """
        for chunk in self._chunks.get(tag, ()):
            if isinstance(chunk, bytes):
                yield chunk
            else:
                if self._spill is None:
                    message = "the output was dropped while it was read: its epoch was rolled back"
                    raise EOFError(message)
                yield _read(self._spill.fileno(), *chunk)

    def close(self) -> None:
        """Drop all output."""
        self._chunks.clear()
        if self._spill is not None:
            self._spill.close()
            self._spill = None


def _read(file: int, offset: int, length: int) -> bytes:
    """Read without using the file position, which concurrent readers would share."""
    data = os.pread(file, length, offset)
    while len(data) < length:  # one system call reads at most 2 GiB
        more = os.pread(file, length - len(data), offset + len(data))
        if not more:
            message = f"The spilled output ends at byte {offset + len(data)}, {length - len(data)} bytes too early."
            raise ControlError(message)
        data += more
    return data

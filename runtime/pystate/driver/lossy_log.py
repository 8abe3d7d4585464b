"""A driver's log on a full disk: lines go missing, which is said once there is room again, and nothing fails of it."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class LossyLog(io.RawIOBase):
    """Writes to a file, and drops what it refuses.

    Args:
        descriptor: The open file, which is not closed here.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lost = 0

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, for who hands it to another process."""
        return self._descriptor

    def write(self, data: object, /) -> int:
        """Write bytes; return how many of them are done with."""
        content = bytes(data)  # type: ignore[call-overload]  # any buffer
        try:
            if self._lost:
                os.write(self._descriptor, f"\n({self._lost} bytes are missing here: the disk refused them)\n".encode())
                self._lost = 0
            return os.write(self._descriptor, content)
        except OSError:
            self._lost += len(content)
            return len(content)


def lossy(stream: TextIO) -> TextIO:
    """Return a stream that writes where another one does, and never fails."""
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(LossyLog(stream.fileno())),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )


def tolerate_a_full_disk(*, prints: bool) -> None:
    """Make this process's log lossy.

    Args:
        prints: Whether what the program prints goes to the log, too; else it is an answer, of which nothing may be missing.
    """
    sys.stderr = lossy(sys.stderr)
    if prints:
        sys.stdout = lossy(sys.stdout)

"""The lines of a file from a position on, cut where Hadoop's reader cuts: behind a line feed, a carriage return or both.

A position counts bytes of the content; of a compressed file those of what it holds.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections import deque
from typing import IO, Any

from pystate.common.errors import RecordError

_BLOCK = 1 << 18
_END = re.compile(rb"(\r\n|\r|\n)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_READ = (".lz4", ".snappy", ".lzo", ".zst")


class Lines:
    """Reads lines.

    Args:
        file: The content, from its begin; is closed with this.
        position: Where to go on.

    Raises:
        ValueError: The file ends in front of that.

    Attributes:
        position: Where the next line begins.
    """

    def __init__(self, file: IO[bytes], position: int = 0) -> None:
        self._file = file
        self._lines: deque[bytes] = deque()
        self._sizes: deque[int] = deque()
        self._rest = b""
        self._ended = False
        self.position = position
        if position:
            file.seek(position - 1)
            if not file.read(1):
                message = f"it has become shorter than the {position} bytes that were read of it"
                raise ValueError(message)
        else:
            while len(self._rest) < len(_BYTE_ORDER_MARK) and (read := file.read(len(_BYTE_ORDER_MARK) - len(self._rest))):
                self._rest += read
            if self._rest == _BYTE_ORDER_MARK:
                self._rest = b""
                self.position = len(_BYTE_ORDER_MARK)

    def read(self, most: int) -> list[bytes]:
        """Return the next lines, without their ends; none at the end of the file."""
        while not self._lines and not self._ended:
            self._fill()
        count = min(most, len(self._lines))
        self.position += sum(self._sizes.popleft() for _ in range(count))
        return [self._lines.popleft() for _ in range(count)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _fill(self) -> None:
        block = self._file.read(_BLOCK)
        data = self._rest + block
        if not block:
            self._ended = True
            self._add_cut(data)
            if self._rest:
                self._lines.append(self._rest)
                self._sizes.append(len(self._rest))
                self._rest = b""
            return
        if data.endswith(b"\r"):  # a line feed may follow
            self._add_cut(data[:-1])
            self._rest += b"\r"
        else:
            self._add_cut(data)

    def _add_cut(self, data: bytes) -> None:
        """Take all whole lines of some data, and keep what is behind them."""
        if b"\r" not in data:
            *lines, self._rest = data.split(b"\n")
            self._lines.extend(lines)
            self._sizes.extend(len(line) + 1 for line in lines)
            return
        *parts, self._rest = _END.split(data)
        self._lines.extend(parts[::2])
        self._sizes.extend(len(line) + len(end) for line, end in zip(parts[::2], parts[1::2], strict=True))


class _Inflated(io.RawIOBase):
    """What a zlib stream holds: Hadoop's `.deflate`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = zlib.decompressobj()
        self._ready = b""
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go on; never back."""
        assert whence == io.SEEK_SET and offset >= self._at  # noqa: S101 - lines are read from the front
        while self._at < offset and self.read(min(_BLOCK, offset - self._at)):
            pass
        return self._at

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._file.read(_BLOCK)
            if not block:
                if not self._stream.eof and self._at:
                    message = "it ends in the middle of what is compressed"
                    raise EOFError(message)
                return 0
            self._ready = self._stream.decompress(block)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def content_of(file: IO[bytes], name: str) -> IO[bytes]:
    """Return what a file holds: what its name says is compressed, as Hadoop's codecs say it, is read as it was before.

    Raises:
        RecordError: It is compressed in a way that isn't read.
    """
    lower = name.lower()
    if lower.endswith(".gz"):
        return gzip.GzipFile(fileobj=file, mode="rb")  # type: ignore[return-value]
    if lower.endswith(".bz2"):
        return bz2.BZ2File(file, "rb")
    if lower.endswith(".deflate"):
        return _Inflated(file)  # type: ignore[return-value]
    if lower.endswith(_NOT_READ):
        message = f"{name} is compressed in a way that a source in slots doesn't read."
        raise RecordError(message, hint="use .gz, .bz2 or .deflate, or set execution.engine = micro-batch")
    return file

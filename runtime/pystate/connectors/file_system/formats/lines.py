"""Reads the lines of a file from a position; a line ends with LF, CR or CR LF, as in Hadoop and Java.

A position counts bytes of the content, for a compressed file those of the decompressed content.
"""

from __future__ import annotations

import re
from collections import deque
from typing import IO

_BLOCK = 1 << 18
_END = re.compile(rb"(\r\n|\r|\n)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines:
    """Reads lines.

    Args:
        file: The content, at its beginning; closed with this reader.
        position: Where to start.

    Raises:
        ValueError: The file ends before the position.

    Attributes:
        position: Where the next line begins.
        ends: The line ends of the lines that `read` returned last; empty for a last line without one.
    """

    def __init__(self, file: IO[bytes], position: int = 0) -> None:
        self._file = file
        self._lines: deque[bytes] = deque()
        self._line_ends: deque[bytes] = deque()
        self._rest = b""
        self._ended = False
        self.ends: list[bytes] = []
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
        lines = [self._lines.popleft() for _ in range(count)]
        self.ends = [self._line_ends.popleft() for _ in range(count)]
        self.position += sum(map(len, lines)) + sum(map(len, self.ends))
        return lines

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
                self._line_ends.append(b"")
                self._rest = b""
            return
        if data.endswith(b"\r"):  # a line feed may follow
            self._add_cut(data[:-1])
            self._rest += b"\r"
        else:
            self._add_cut(data)

    def _add_cut(self, data: bytes) -> None:
        """Add all complete lines of some data, and keep the rest."""
        if b"\r" not in data:
            *lines, self._rest = data.split(b"\n")
            self._lines.extend(lines)
            self._line_ends.extend([b"\n"] * len(lines))
            return
        *parts, self._rest = _END.split(data)
        self._lines.extend(parts[::2])
        self._line_ends.extend(parts[1::2])

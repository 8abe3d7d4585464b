"""What a file holds: its bytes as they were before they were compressed, and its text as UTF-8 whatever its charset is."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Callable
from typing import IO, Any

from pystate.common.errors import JobGraphError, RecordError

_BLOCK = 1 << 18
_NOT_READ = (".lz4", ".snappy", ".lzo", ".br", ".zip", ".7z", ".rar", ".tgz", ".tbz2")
_ERRORS = ("strict", "replace", "ignore", "backslashreplace")


class _FromTheFront(io.RawIOBase):
    """A content that can only be read from its begin on.

    Args:
        file: What it is made of; is closed with this.
        next_part: Returns the next bytes; none at the end.
    """

    def __init__(self, file: IO[bytes], next_part: Callable[[], bytes]) -> None:
        self._file = file
        self._next_part = next_part
        self._ready = memoryview(b"")
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
        if not self._ready:
            self._ready = memoryview(self._next_part())
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _inflated(file: IO[bytes]) -> IO[bytes]:
    """Return what a zlib stream holds: `.deflate` of Hadoop and Flink."""
    stream, some = zlib.decompressobj(), False

    def next_part() -> bytes:
        nonlocal some
        while block := file.read(_BLOCK):
            some = True
            if part := stream.decompress(block):
                return part
        if some and not stream.eof:
            message = "it ends in the middle of what is compressed"
            raise EOFError(message)
        return b""

    return _FromTheFront(file, next_part)  # type: ignore[return-value]


def _gzip(file: IO[bytes]) -> IO[bytes]:
    import gzip

    return gzip.GzipFile(fileobj=file, mode="rb")  # type: ignore[return-value]


def _bzip2(file: IO[bytes]) -> IO[bytes]:
    import bz2

    return bz2.BZ2File(file, "rb")


def _xz(file: IO[bytes]) -> IO[bytes]:
    import lzma

    return lzma.LZMAFile(file, "rb")


def _zstandard(file: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    return _FromTheFront(file, lambda: stream.read(_BLOCK))  # type: ignore[return-value]


_CODECS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": _gzip,
    ".gzip": _gzip,
    ".bz2": _bzip2,
    ".xz": _xz,
    ".deflate": _inflated,
    ".zst": _zstandard,
}
"""Those of Flink's `StandardDeCompressors`, by how names end."""


def content_of(file: IO[bytes], name: str) -> IO[bytes]:
    """Return what a file holds: what its name says is compressed is read as it was before.

    Raises:
        RecordError: It is compressed in a way that isn't read.
    """
    lower = name.lower()
    for ending, codec in _CODECS.items():
        if lower.endswith(ending):
            return codec(file)
    if lower.endswith(_NOT_READ):
        message = f"{name} is compressed in a way that a source of files doesn't read."
        raise RecordError(message, hint=f"use {', '.join(_CODECS)}, or leave it out by a pattern")
    return file


class TextEncoding:
    """How the bytes of texts are read.

    Args:
        charset: A name as Java or Python has it.
        errors: What becomes of bytes that are no text in it: `strict` fails the job, `replace` reads U+FFFD as Java does,
            `ignore` leaves them out, `backslashreplace` writes them down.
        where: Who asks, for errors.

    Raises:
        JobGraphError: There is no such charset, or no such choice.
    """

    def __init__(self, charset: str = "UTF-8", errors: str = "strict", where: str = "charset_name") -> None:
        try:
            name = codecs.lookup(charset)
            text = name._is_text_encoding  # noqa: SLF001 - `str.encode` asks the same
        except (LookupError, TypeError, ValueError):
            text = False
        if not text:
            message = f"{where}: {charset!r} is no charset."
            raise JobGraphError(message, hint="such as UTF-8, UTF-16, ISO-8859-1, windows-1252, Shift_JIS, GB18030")
        if errors not in _ERRORS:
            message = f"{where}: errors={errors!r} is none of {', '.join(_ERRORS)}."
            raise JobGraphError(message)
        self._charset = "utf-8" if name.name == "ascii" else name.name  # of which it is a part
        self.errors = errors

    def text(self, data: bytes) -> str:
        """Return the text of bytes of what `as_utf8` returned.

        Raises:
            UnicodeDecodeError: There is none, and that is an error.
        """
        return data.decode("utf-8", self.errors)

    def as_utf8(self, file: IO[bytes]) -> IO[bytes]:
        """Return a content as UTF-8, with what is to be done about bytes that are no text left to `text` where it can be."""
        if self._charset == "utf-8":
            return file
        decoder = codecs.getincrementaldecoder(self._charset)(self.errors)
        ended = False

        def next_part() -> bytes:
            nonlocal ended
            while not ended:
                block = file.read(_BLOCK)
                ended = not block
                if text := decoder.decode(block, ended):
                    return text.encode()
            return b""

        return _FromTheFront(file, next_part)  # type: ignore[return-value]


UTF_8 = TextEncoding()

"""Decompresses files, and decodes their text from any charset to UTF-8."""

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
    """A stream that can only be read forwards.

    Args:
        file: The underlying file; closed with this stream.
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
        """Skip forwards; never backwards."""
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
    """Return the content of a zlib stream: `.deflate` of Hadoop and Flink."""
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
    """Return the content of a file, decompressed by the extension of its name.

    Raises:
        RecordError: The compression isn't supported.
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
    """The charset of text files, and the handling of invalid bytes.

    Args:
        charset: A name in Java or Python.
        errors: How invalid bytes are handled: `strict` fails the job, `replace` reads U+FFFD as Java does,
            `ignore` drops them, `backslashreplace` escapes them.
        where: The source, for errors.

    Raises:
        JobGraphError: There is no such charset, or `errors` is invalid.
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
        self._charset = "utf-8" if name.name == "ascii" else name.name  # it is a subset of it
        self.errors = errors

    def text(self, data: bytes) -> str:
        """Decode bytes of a stream that `as_utf8` returned.

        Raises:
            UnicodeDecodeError: They are invalid, and `errors` is `strict`.
        """
        return data.decode("utf-8", self.errors)

    def as_utf8(self, file: IO[bytes]) -> IO[bytes]:
        """Return a stream of the content in UTF-8; if possible, invalid bytes are left to `text`."""
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

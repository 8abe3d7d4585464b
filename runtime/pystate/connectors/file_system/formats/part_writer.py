"""Writers of one part file, for row formats and for bulk formats."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import IO, Any, cast

from pystate.common.serialization import BulkWriterFactory
from pystate.core.file_systems.recoverable_files import Recoverable, RecoverableFile


class PartWriter(ABC):
    """Writes elements to one part file.

    Args:
        file: The file.
    """

    def __init__(self, file: RecoverableFile) -> None:
        self.file = file

    @abstractmethod
    def write(self, element: Any) -> None:
        """Write an element."""

    def close_for_commit(self) -> Recoverable:
        """Close the file."""
        return self.file.close_for_commit()

    def discard(self) -> None:
        """Delete the file."""
        self.file.discard()


PartWriterFactory = Callable[[RecoverableFile], PartWriter]


class RowPartWriter(PartWriter):
    """Appends the bytes of each element.

    Args:
        file: The file.
        encode: Encodes an element.
    """

    def __init__(self, file: RecoverableFile, encode: Callable[[Any], bytes]) -> None:
        super().__init__(file)
        self._encode = encode
        self._add = file.write

    def write(self, element: Any) -> None:
        """Write an element."""
        self._add(self._encode(element))


class BulkPartWriter(PartWriter):
    """Passes elements to a bulk writer, which owns the file.

    Args:
        file: The file.
        factory: Makes the bulk writer.
    """

    def __init__(self, file: RecoverableFile, factory: BulkWriterFactory) -> None:
        super().__init__(file)
        self._stream = _Stream(file)
        self._writer = factory.create(cast("IO[bytes]", self._stream))

    def write(self, element: Any) -> None:
        """Write an element."""
        self._writer.add_element(element)

    def close_for_commit(self) -> Recoverable:
        """Finish the bulk writer, and close the file."""
        self._writer.flush()
        self._writer.finish()
        return super().close_for_commit()

    def discard(self) -> None:
        """Delete the file, and ignore what the bulk writer writes when it is garbage-collected."""
        self._stream.abandoned = True
        super().discard()


class _Stream(io.RawIOBase):
    """A write-only stream over a part file; closing it doesn't close the file.

    Args:
        file: The file.

    Attributes:
        abandoned: Whether writes are ignored.
    """

    def __init__(self, file: RecoverableFile) -> None:
        self._file = file
        self.abandoned = False

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes."""
        view = memoryview(data)
        if not self.abandoned:
            self._file.write(bytes(view))
        return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._file.tell()

"""Elements into a part file: row by row, or by a writer that has a file to itself."""

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
        """End the file."""
        return self.file.close_for_commit()

    def discard(self) -> None:
        """Leave nothing of the file."""
        self.file.discard()


PartWriterFactory = Callable[[RecoverableFile], PartWriter]


class RowPartWriter(PartWriter):
    """Writes the bytes of each element behind those of the last one.

    Args:
        file: The file.
        encode: Returns an element's bytes.
    """

    def __init__(self, file: RecoverableFile, encode: Callable[[Any], bytes]) -> None:
        super().__init__(file)
        self._encode = encode
        self._add = file.write

    def write(self, element: Any) -> None:
        """Write an element."""
        self._add(self._encode(element))


class BulkPartWriter(PartWriter):
    """Hands elements to a writer that has the file to itself.

    Args:
        file: The file.
        factory: Makes that writer.
    """

    def __init__(self, file: RecoverableFile, factory: BulkWriterFactory) -> None:
        super().__init__(file)
        self._stream = _Stream(file)
        self._writer = factory.create(cast("IO[bytes]", self._stream))

    def write(self, element: Any) -> None:
        """Write an element."""
        self._writer.add_element(element)

    def close_for_commit(self) -> Recoverable:
        """Have the writer write the rest, and end the file."""
        self._writer.flush()
        self._writer.finish()
        return super().close_for_commit()

    def discard(self) -> None:
        """Leave nothing of the file, whatever its writer writes when it is collected."""
        self._stream.abandoned = True
        super().discard()


class _Stream(io.RawIOBase):
    """A part file as a stream that is only written to; to close it has no effect on the file.

    Args:
        file: The file.

    Attributes:
        abandoned: What is written is dropped.
    """

    def __init__(self, file: RecoverableFile) -> None:
        self._file = file
        self.abandoned = False

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, data: Any) -> int:
        """Add bytes."""
        view = memoryview(data)
        if not self.abandoned:
            self._file.write(bytes(view))
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._file.tell()

"""Serialization of elements for external systems."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import IO, Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, Types

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Serializes elements to bytes.

    Attributes:
        consumed_type: The type of the elements that it takes, for `pystate check`; None if it is left open.
    """

    consumed_type: TypeInformation | None = None

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """Return the bytes of an element."""


class DeserializationSchema(ABC):
    """Deserializes bytes to elements.

    Attributes:
        produced_type: The type of the elements; None if it is left open, and they travel pickled.
        makes_several: Whether `deserialize` returns the elements of some bytes, in a list or by `yield`, instead of one.
    """

    produced_type: TypeInformation | None = None
    makes_several: bool = False

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the element of some bytes; None if there is none."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings.

    Args:
        charset: Their encoding.

    Raises:
        JobGraphError: There is no such encoding.
    """

    produced_type = consumed_type = Types.STRING()

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _charset(charset)

    def serialize(self, element: str) -> bytes:
        """Return the encoded string."""
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """Return the decoded string."""
        return message.decode(self._charset)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    produced_type = Types.PRIMITIVE_ARRAY(Types.BYTE())

    def serialize(self, element: bytes) -> bytes:
        """Return the bytes."""
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes."""
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """The bytes in one field of rows.

    Args:
        field_index: Its position.

    Raises:
        JobGraphError: It isn't a non-negative integer.
    """

    def __init__(self, field_index: int) -> None:
        if not isinstance(field_index, int) or isinstance(field_index, bool) or field_index < 0:
            message = f"RowFieldExtractorSchema takes the position of a field, from 0 on, not {field_index!r}."
            raise JobGraphError(message)
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """Return the bytes in the field; empty if it is null."""
        value = element[self._field_index]
        return b"" if value is None else bytes(value)


class Encoder(ABC):
    """Writes elements to a file, one after the other."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder that writes each element as a line of text."""
        return SimpleStringEncoder(charset_name)

    @abstractmethod
    def encode(self, element: Any) -> bytes:
        """Return the bytes of an element."""


class SimpleStringEncoder(Encoder):
    """Writes each element as a line of text.

    Args:
        charset_name: Its encoding.

    Attributes:
        charset: Python's name of it.

    Raises:
        JobGraphError: There is no such encoding.
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self.charset = _charset(charset_name)

    def encode(self, element: Any) -> bytes:
        """Return the line."""
        return f"{element}\n".encode(self.charset)


class BulkWriter(ABC):
    """Writes elements to one file as a whole."""

    @abstractmethod
    def add_element(self, element: Any) -> None:
        """Add an element."""

    @abstractmethod
    def flush(self) -> None:
        """Write buffered elements; called before `finish`."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file; the stream stays open."""


class BulkWriterFactory(ABC):
    """The factory of bulk writers.

    Attributes:
        can_be_concatenated: Whether two of its files, one after the other, are a file of the format.
    """

    can_be_concatenated: bool = True

    @abstractmethod
    def create(self, stream: IO[bytes]) -> BulkWriter:
        """Return the writer of one file.

        Args:
            stream: Takes the file's bytes; it has `write` and `tell`, and can't go back.
        """


def _charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        message = f"There is no charset {name!r}."
        raise JobGraphError(message, hint="UTF-8 is one") from error

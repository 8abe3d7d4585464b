"""Bases of schemas whose work is done by a function that can't be pickled, and is made where messages come to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from pystate.common.errors import PystateError, RecordError
from pystate.common.serialization import DeserializationSchema, SerializationSchema

_SHOWN = 200
"""Bytes and characters of something wrong in an error."""


class ReadingSchema(DeserializationSchema):
    """Deserializes messages by a function; what that raises means that a message is none of the format.

    Attributes:
        what: What a message should be, for errors: "Avro of ROW<...>".
        hint: What to do about one that isn't.
    """

    what: str
    hint = "mend what writes the messages; or say what is done with such ones: set_bad_records(...) of the source"
    _read: Callable[[bytes], Any] | None = None

    @abstractmethod
    def reader(self) -> Callable[[bytes], Any]:
        """Return the function that makes an element of a message."""

    def deserialize(self, message: bytes) -> Any:
        """Return the element of a message.

        Raises:
            RecordError: The message isn't of the format.
        """
        read = self._read
        if read is None:
            read = self._read = self.reader()
        try:
            return read(message)
        except PystateError:
            raise
        except Exception as error:  # libraries raise many kinds of errors
            reason = str(error) or type(error).__name__
            text = f"A message is no {self.what}: {reason}. It begins with {message[:_SHOWN]!r}."
            raise RecordError(text, hint=self.hint) from error

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {name: value for name, value in self.__dict__.items() if name != "_read"}


class WritingSchema(SerializationSchema):
    """Serializes elements by a function; what that raises means that an element can't be written.

    Attributes:
        what: What an element should be, for errors.
    """

    what: str
    _write: Callable[[Any], bytes] | None = None

    @abstractmethod
    def writer(self) -> Callable[[Any], bytes]:
        """Return the function that makes the message of an element."""

    def serialize(self, element: Any) -> bytes:
        """Return the message of an element.

        Raises:
            RecordError: It can't be written.
        """
        write = self._write
        if write is None:
            write = self._write = self.writer()
        try:
            return write(element)
        except PystateError as error:
            if not isinstance(error, RecordError):
                raise
            raise self._refused(element, error.message) from error
        except Exception as error:  # libraries raise many kinds of errors
            raise self._refused(element, str(error) or type(error).__name__) from error

    def _refused(self, element: Any, reason: str) -> RecordError:
        text = f"An element is no {self.what}: {reason.rstrip('.')}. It is {repr(element)[:_SHOWN]}."
        return RecordError(text, hint="map() the elements to what the schema has, or change the schema")

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {name: value for name, value in self.__dict__.items() if name != "_write"}

"""Writes container files of Avro."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, cast

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import BulkWriter, BulkWriterFactory
from pystate.connectors.avro.avro_package import fastavro
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.avro.avro_types import avro_type
from pystate.core.records.codec import shown

_ROWS = (Row, tuple, list)
CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")


class AvroWriterFactory(BulkWriterFactory):
    """Makes writers of container files.

    Args:
        schema: The schema of the elements, which are rows or what fastavro takes.
        codec: How blocks are compressed.

    Raises:
        JobGraphError: There is no such codec.
    """

    can_be_concatenated = False

    def __init__(self, schema: AvroSchema, codec: str = "null") -> None:
        if codec not in CODECS:
            message = f"Avro has no codec {codec!r}."
            raise JobGraphError(message, hint=f"one of {', '.join(CODECS)}")
        self.schema = schema
        self.codec = codec
        fastavro()

    def create(self, stream: IO[bytes]) -> BulkWriter:
        """Return the writer of one file."""
        return _AvroWriter(stream, self)


class _AvroWriter(BulkWriter):
    def __init__(self, stream: IO[bytes], factory: AvroWriterFactory) -> None:
        from fastavro.write import Writer

        self._writer = Writer(cast("IO[Any]", _Forwards(stream)), factory.schema.parsed, codec=factory.codec)
        self._to_datum = _to_datum(factory.schema)

    def add_element(self, element: Any) -> None:
        """Add an element.

        Raises:
            RecordError: It isn't of the schema.
        """
        try:
            self._writer.write(self._to_datum(element) if isinstance(element, _ROWS) else element)
        except Exception as error:  # fastavro raises many kinds of errors
            reason = getattr(error, "message", None) or str(error) or type(error).__name__
            message = f"{shown(element)} can't be written as Avro: {reason}"
            raise RecordError(message, hint="map() the elements to what the schema has") from error

    def flush(self) -> None:
        """Write the buffered elements as a block."""
        self._writer.flush()

    def finish(self) -> None:
        """Write the rest: a container has no end of its own."""
        self._writer.flush()


class _Forwards:
    """What fastavro's writer needs of a file that can't be read: it looks whether it appends.

    Args:
        stream: The file.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.write = stream.write
        self.flush = getattr(stream, "flush", lambda: None)
        self.seekable = lambda: False


def _to_datum(schema: AvroSchema) -> Callable[[Any], Any]:
    """Return a function that makes of rows what fastavro takes."""
    try:
        return avro_type(schema).write
    except JobGraphError:  # a record contains itself, and its rows have no type
        return lambda row: row.as_dict(recursive=True)

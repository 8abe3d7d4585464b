"""The bytes of one datum of Avro, without a container: what a message of Kafka holds."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from pystate.connectors.avro.avro_bytes import checks_of
from pystate.connectors.avro.avro_defaults import own_defaults
from pystate.connectors.avro.avro_package import fastavro
from pystate.connectors.avro.avro_schema import AvroSchema


def datum_reader(writer: AvroSchema, reader: AvroSchema | None = None) -> Callable[[bytes], Any]:
    """Return a function that makes a datum of bytes; it raises an error, of whichever class, for what is no such datum.

    Args:
        writer: The schema that the data were written with.
        reader: The schema that they are read with, if it is another one.
    """
    read = fastavro().schemaless_reader
    written = writer.parsed
    wanted = None if reader is None or reader == writer else reader.for_reading
    own = None if wanted is None else own_defaults(wanted)
    check = checks_of(written)

    def read_datum(message: bytes) -> Any:
        if check is not None:
            check(message, 0)
        source = io.BytesIO(message)
        datum = read(source, written, wanted)
        if source.tell() != len(message):
            problem = f"{len(message) - source.tell()} bytes are left after the datum: another schema has written it"
            raise ValueError(problem)
        return datum if own is None else own(datum)

    return read_datum


def datum_writer(schema: AvroSchema) -> Callable[[Any], bytes]:
    """Return a function that makes bytes of a datum; it raises an error, of whichever class, for what is none."""
    write = fastavro().schemaless_writer
    parsed = schema.parsed

    def write_datum(datum: Any) -> bytes:
        target = io.BytesIO()
        write(target, parsed, datum)
        return target.getvalue()

    return write_datum

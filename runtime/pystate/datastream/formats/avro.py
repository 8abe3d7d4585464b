"""Avro in messages and files, with the names of `pyflink.datastream.formats.avro`."""

from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.datastream.formats.avro_files import AvroBulkFormat, AvroBulkWriters, AvroInputFormat
from pystate.datastream.formats.avro_rows import (
    AvroDeserializationSchema,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSerializationSchema,
    GenericRecordAvroTypeInfo,
)

__all__ = [
    "AvroBulkFormat",
    "AvroBulkWriters",
    "AvroDeserializationSchema",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "AvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
]

"""Names of the CSV formats, for rows and for files."""

from pystate.connectors.file_system.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from pystate.datastream.formats.csv_files import CsvBulkWriters, CsvReaderFormat
from pystate.datastream.formats.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

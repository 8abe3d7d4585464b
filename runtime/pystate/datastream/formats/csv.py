"""CSV's names: rows as lines. Formats of files aren't there yet; Spark reads and writes CSV."""

from pystate.common.not_there import not_there
from pystate.datastream.formats.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

_WHY = "CSV formats of files come later."
_READ = "read CSV with Spark: env.from_data_frame(env.spark.readStream.schema(...).csv(path))"
_WRITE = "write CSV with Spark: for_each_batch(lambda frame, epoch: frame.write.csv(...))"

CsvSchema = not_there("CsvSchema", _WHY, _READ)
CsvSchemaBuilder = not_there("CsvSchemaBuilder", _WHY, _READ)
CsvReaderFormat = not_there("CsvReaderFormat", _WHY, _READ)
CsvBulkWriters = not_there("CsvBulkWriters", _WHY, _WRITE)

"""Names of the JSON formats, for rows and for files."""

from pystate.datastream.formats.json_files import JsonLinesEncoder, JsonLinesFormat
from pystate.datastream.formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

"""JSON's names: rows as objects, and files."""

from pystate.datastream.formats.json_files import JsonLinesEncoder, JsonLinesFormat
from pystate.datastream.formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

"""JSON's names. The formats go with Kafka's connector, which isn't there yet; Spark has functions of its own for JSON."""

from pystate.common.not_there import not_there

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

_WHY = "the formats of Kafka's records come later, with the connector."

JsonRowDeserializationSchema = not_there(
    "JsonRowDeserializationSchema", _WHY, "use json.loads in map(), or Spark's from_json"
)
JsonRowSerializationSchema = not_there("JsonRowSerializationSchema", _WHY, "use json.dumps in map(), or Spark's to_json")

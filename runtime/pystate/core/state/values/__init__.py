"""The serialization of values by the format of their type, and schema evolution."""

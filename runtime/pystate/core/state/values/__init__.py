"""The serialization of values by type, and schema evolution."""

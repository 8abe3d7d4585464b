"""Messages of Avro whose schemas are in a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.avro.avro_data import datum_reader
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.schema_registry.registry import SchemaRegistry, registry_module

_FRAME_BYTES = 5
"""Before a message: a zero, and the number of its schema."""


def avro_message_reader(registry: SchemaRegistry, schema: AvroSchema | None = None) -> Callable[[bytes], Any]:
    """Return a function that makes a datum of a message; it raises an error, of whichever class, for what is none.

    Args:
        registry: It is asked once for each schema.
        schema: The schema that data have; None for that of each message.
    """
    client = registry.client()
    text = None if schema is None else schema.text
    by_client: Callable[[bytes], Any] = registry_module("avro").AvroDeserializer(client, text)
    readers: dict[bytes, Callable[[bytes], Any]] = {}

    def reader_of(frame: bytes) -> Callable[[bytes], Any]:
        """Return what reads the messages of a schema: by itself, as that is faster, where the client does no more."""
        if frame[0]:
            return by_client
        written = client.get_schema(int.from_bytes(frame[1:], "big"))
        if written.schema_type != "AVRO":
            problem = f"its schema is one of {written.schema_type}"
            raise ValueError(problem)
        if getattr(written, "rule_set", None):
            return by_client
        texts = _referred_to(client, written).values()
        try:
            read_datum = datum_reader(AvroSchema(written.schema_str, texts), schema)
        except JobGraphError as error:  # what another program has registered is no fault of this job's
            raise ValueError(error.message.rstrip(".")) from error
        return lambda message: read_datum(message[_FRAME_BYTES:])

    def read(message: bytes) -> Any:
        frame = message[:_FRAME_BYTES]
        known = readers.get(frame)
        if known is None:
            known = reader_of(frame)
            if known is not by_client:
                readers[frame] = known
        return known(message)

    return registry.reading(read)


def _referred_to(client: Any, schema: Any) -> dict[str, str]:
    """Return the schemas that a schema refers to, by name; each after those that it refers to itself."""
    found: dict[str, str] = {}
    for reference in schema.references or ():
        named = client.get_version(reference.subject, reference.version, deleted=True).schema
        found |= {name: text for name, text in _referred_to(client, named).items() if name not in found}
        found.setdefault(reference.name, named.schema_str)
    return found

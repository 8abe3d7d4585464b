"""fastavro, imported where it is used."""

from __future__ import annotations

from types import ModuleType

from pystate.connectors.client_package import missing_client


def fastavro() -> ModuleType:
    """Return the package.

    Raises:
        JobGraphError: It isn't installed.
    """
    try:
        import fastavro as package
    except ImportError as error:
        message = "Avro needs the package fastavro, which isn't installed."
        raise missing_client(message, "avro") from error
    return package

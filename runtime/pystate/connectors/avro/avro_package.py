"""fastavro, imported where it is used."""

from __future__ import annotations

from typing import Any

from pystate.connectors.client_package import imported


def fastavro() -> Any:
    """Return the package.

    Raises:
        JobGraphError: It isn't installed.
    """
    return imported("fastavro", "Avro needs the package fastavro, which isn't installed.", "avro")

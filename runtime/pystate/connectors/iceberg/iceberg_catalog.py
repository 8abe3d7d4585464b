"""The catalog of Iceberg tables, as pyiceberg's properties name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError
from pystate.connectors.client_package import missing_client

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


NEEDED = "Iceberg tables need the package pyiceberg, which isn't installed."


class IcebergCatalog:
    """How a catalog is reached. It is pickled without its connections.

    Args:
        name: pyiceberg's name of it.
        properties: pyiceberg's own: `{"type": "rest", "uri": ...}`. What isn't there comes from `~/.pyiceberg.yaml` and
            the environment of the slot.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self._properties = dict(properties)
        self._catalog: Catalog | None = None

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"IcebergCatalog({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connections out."""
        return {**self.__dict__, "_catalog": None}

    def open(self) -> Catalog:
        """Return the catalog, the same each time.

        Raises:
            JobGraphError: pyiceberg isn't installed.
        """
        if self._catalog is None:
            try:
                from pyiceberg.catalog import load_catalog
            except ImportError as error:
                raise missing_client(NEEDED, "iceberg") from error
            try:
                self._catalog = load_catalog(self.name, **self._properties)
            except Exception:  # of a SQL catalog whose tables another process makes at the same time
                self._catalog = load_catalog(self.name, **self._properties)
        return self._catalog


def checked_identifier(identifier: str, what: str) -> str:
    """Return a table's namespace and name.

    Args:
        identifier: As said.
        what: The class that it is for.

    Raises:
        JobGraphError: It isn't that.
    """
    if not isinstance(identifier, str) or not all(identifier.split(".")) or "." not in identifier:
        message = f"An Iceberg table is named by its namespace and its name, not {identifier!r}."
        raise JobGraphError(message, hint=f'{what}.for_table("db.counts")')
    return identifier

"""The catalog of Iceberg tables, as pyiceberg's properties name it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ExternalSystemError, JobGraphError
from pystate.connectors.client_package import missing_client

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


NEEDED = "Iceberg tables need the package pyiceberg, which isn't installed."
_SHOWN = 500
_AWAY = {"requests": ("ConnectionError", "Timeout"), "sqlalchemy.exc": ("OperationalError", "InterfaceError")}
"""Errors of packages that only some catalogs need, and that are there where one has raised them."""


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
            ExternalSystemError: It doesn't answer.
        """
        if self._catalog is None:
            try:
                from pyiceberg.catalog import load_catalog
            except ImportError as error:
                raise missing_client(NEEDED, "iceberg") from error
            try:
                self._catalog = load_catalog(self.name, **self._properties)
            except Exception:  # of a SQL catalog whose tables another process makes at the same time
                with self._answers():
                    self._catalog = load_catalog(self.name, **self._properties)
        return self._catalog

    def load_table(self, identifier: str) -> Table:
        """Return a table as it is now.

        Raises:
            NoSuchTableError: There is none.
            ExternalSystemError: The catalog doesn't answer.
        """
        catalog = self.open()
        with self._answers():
            return catalog.load_table(identifier)

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Tell a catalog that is away from what the program does wrong: the first may come back."""
        try:
            yield
        except Exception as error:
            if not _is_away(error):
                raise
            message = f"The catalog of Iceberg's tables doesn't answer: {str(error) or type(error).__name__}"
            hint = "start it, or look at the catalog's uri"
            raise ExternalSystemError(message[:_SHOWN], where=f"catalog {self.name}", hint=hint) from error


def _is_away(error: Exception) -> bool:
    """Return whether an error is one of the network, of a server that is overloaded, or of a database that is away."""
    from pyiceberg.exceptions import ServerError, ServiceUnavailableError, TooManyRequestsError

    found: list[type[BaseException]] = [
        ConnectionError,
        TimeoutError,
        ServerError,
        ServiceUnavailableError,
        TooManyRequestsError,
    ]
    for module, names in _AWAY.items():
        found += [getattr(sys.modules[module], name) for name in names if module in sys.modules]
    return isinstance(error, tuple(found))


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

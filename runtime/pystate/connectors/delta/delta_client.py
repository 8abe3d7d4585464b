"""deltalake, imported where it is used, and places of tables."""

from __future__ import annotations

import os
import re
from types import ModuleType
from urllib.parse import unquote

from pystate.common.errors import JobGraphError
from pystate.connectors.client_package import missing_client

NEEDED = "Delta tables need the package deltalake, which isn't installed."

_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def deltalake() -> ModuleType:
    """Return the package.

    Raises:
        JobGraphError: It isn't installed.
    """
    try:
        import deltalake as package
    except ImportError as error:
        raise missing_client(NEEDED, "delta") from error
    return package


def table_uri(path: str) -> str:
    """Return a table's place as every process understands it.

    Raises:
        JobGraphError: It isn't a path or a URL, or a path that deltalake takes for another one.
    """
    if not isinstance(path, str) or not path.strip():
        message = f"A Delta table is a path or a URL, not {path!r}."
        raise JobGraphError(message)
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:").removeprefix("//").removeprefix("localhost"))
    elif _SCHEME.match(path):
        return path.rstrip("/")
    place = os.path.abspath(os.path.expanduser(path))  # a slot may have another working directory
    if (found := _ESCAPED.search(place)) is not None:
        message = f"deltalake would take {found[0]} in the path of a table for a character of its own."
        raise JobGraphError(message, where=place, hint="give the folder another name")
    return place

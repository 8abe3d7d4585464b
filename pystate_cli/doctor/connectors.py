"""Checks of connectors: that each can be loaded, and what it says itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pystate.common.errors import ConnectorError
from pystate.connectors.finding import Finding, fail

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


def check_connectors(configuration: Configuration) -> Iterator[Finding]:
    """Yield what the connectors say about these settings; one that can't be loaded keeps jobs from running."""
    from pystate.connectors.installed_connectors import asked, connector_entry_points, load

    try:
        points = connector_entry_points()
    except ConnectorError as error:
        yield _failed("connectors", error)
        return
    for point in points:
        try:
            connector = load(point)
            yield from asked(point.name, lambda connector=connector: connector.check(configuration))  # type: ignore[misc]
        except ConnectorError as error:
            yield _failed(point.name, error)


def _failed(name: str, error: ConnectorError) -> Finding:
    where = f" ({error.where})" if error.where else ""
    return fail(name, f"{error.message}{where}", error.hint)

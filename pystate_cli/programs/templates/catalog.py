"""The project templates of `pystate new`: those of no system here, the others in connectors."""

from __future__ import annotations

from pystate.common.errors import ConnectorError
from pystate.connectors.installed_connectors import asked, connectors
from pystate.connectors.project_template import ProjectTemplate
from pystate_cli.programs.templates import count, windows

DEFAULT = "count"
_OF_NO_SYSTEM: dict[str, ProjectTemplate] = {DEFAULT: count.TEMPLATE, "windows": windows.TEMPLATE}


def templates() -> dict[str, ProjectTemplate]:
    """Return the templates by name, in the order of their names.

    Raises:
        ConnectorError: A connector can't be loaded, or two have a template of the same name.
    """
    found = dict(_OF_NO_SYSTEM)
    for connector_name, connector in connectors().items():
        for name, template in asked(connector_name, lambda connector=connector: connector.templates().items()):  # type: ignore[misc]
            if name in found:
                message = f"The template {name!r} of the connector {connector_name!r} has the name of another one."
                raise ConnectorError(message, hint="uninstall the connector, or have its author give it another name")
            found[name] = template
    return dict(sorted(found.items()))

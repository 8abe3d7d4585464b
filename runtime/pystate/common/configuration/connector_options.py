"""The options of connectors in other distributions, found by their entry points."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pystate.common.configuration.config_option import ConfigOption, options_of
from pystate.common.errors import ConnectorError

GROUP = "pystate.options"


@lru_cache(maxsize=1)
def connector_options() -> dict[str, ConfigOption[Any]]:
    """Return the options by key. Asked only about keys that are none of pystate's, since it looks through the whole path.

    Raises:
        ConnectorError: An entry point can't be loaded, or has an option that doesn't begin with its name.
    """
    from importlib.metadata import entry_points  # many modules, for processes that never ask

    found: dict[str, ConfigOption[Any]] = {}
    for point in entry_points(group=GROUP):
        of = "an unknown distribution" if point.dist is None else point.dist.name
        where = f"entry point {point.name} = {point.value} of {of}"
        try:
            options = options_of(point.load())
        except Exception as error:  # what another distribution's module may raise
            message = f"The options of {point.name!r} can't be loaded: {type(error).__name__}: {error}"
            raise ConnectorError(
                message, where=where, hint=f"pip install --force-reinstall {of}, or pip uninstall {of}"
            ) from error
        for option in options:
            if not option.key.startswith(f"{point.name}."):
                message = f"The option {option.key!r} of {of} doesn't begin with {point.name!r}."
                raise ConnectorError(message, where=where, hint=f"have its author call it {point.name}.{option.key}")
            found[option.key] = option
    return found

"""Selection of the port of a server of queryable state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import ControlError

S = TypeVar("S")

_TRIED_ABOVE = 200
_LAST_PORT = 65_535


def next_free(ports: range, where: str, make: Callable[[range], S]) -> S:
    """Return a server on the first free port: of a range, or from a single port upwards.

    Args:
        ports: What the option says.
        where: The option.
        make: Returns a server on the first free one of some ports; raises ControlError where none is.

    Raises:
        ControlError: None is free.
    """
    tried = ports
    if len(ports) == 1 and ports != ANY_PORT:
        tried = range(ports[0], min(ports[0] + _TRIED_ABOVE, _LAST_PORT + 1))
    try:
        return make(tried)
    except ControlError as error:
        message = f"None of the ports from {tried[0]} to {tried[-1]} is free for queryable state."
        raise ControlError(message, where=where, hint="give a wider range of ports") from error

"""Options, where their values come from, and `Configuration`, which programs import from here, as with PyFlink.

It is imported at its first use: who needs the definition of one option gets no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

__all__ = ["Configuration"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from pystate.common.configuration import configuration

    return configuration.Configuration

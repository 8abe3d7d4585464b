"""Options, the origins of their values, and `Configuration`, which programs import from here, as in PyFlink.

Imported lazily, so that users of one option definition load nothing else.
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

"""Options, the origins of their values, and `Configuration`, which programs import from here, as from PyFlink's module.

They are imported at their first use: code that needs the definition of one option gets no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration as Configuration
    from pystate.common.configuration.configuration import (
        add_jars_to_context_class_loader as add_jars_to_context_class_loader,
    )

__all__ = ["Configuration", "add_jars_to_context_class_loader"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = getattr(import_module(f"{__name__}.configuration"), name)
    return value

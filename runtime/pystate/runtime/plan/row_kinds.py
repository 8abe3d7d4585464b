"""Whether a program may make rows of other kinds than INSERT, for an engine that has to know before it does."""

from __future__ import annotations

import sys

from pystate.common.row import RowKind, kinds_are_expected


def may_use_kinds() -> bool:
    """Return whether this process makes such rows, or a module of the program names `RowKind`.

    A program that imports it within functions only isn't recognised; it says so by an option.
    """
    if kinds_are_expected():
        return True
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] != "pystate"]
    return any(getattr(module, "__dict__", {}).get("RowKind") is RowKind for module in modules)

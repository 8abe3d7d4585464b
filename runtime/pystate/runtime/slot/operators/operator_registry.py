"""Finds the class that runs the operators of a kind."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot import operators
from pystate.runtime.slot.operators.operator import Operator


def operator_class(kind: OperatorKind) -> type[Operator]:
    """Return the class of a kind: the subclass of `Operator` that has it among its `kinds`."""
    return _classes()[kind]


@cache
def _classes() -> dict[OperatorKind, type[Operator]]:
    """Return the class of each kind; they are found by standing in a module of this folder."""
    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        import_module(module.name)
    found: dict[OperatorKind, type[Operator]] = {}
    families = [Operator]
    while families:
        family = families.pop()
        families += family.__subclasses__()
        found.update(dict.fromkeys(family.__dict__.get("kinds", ()), family))
    return found

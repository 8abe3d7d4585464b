"""Which names the code of a program's class uses: what can be told of a function without calling it."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

_OURS = "pystate."


def uses_name(function: Any, name: str) -> bool:
    """Return whether a method of a function's class uses an attribute, or a global, of that name; ours are left out."""
    bases = type(function).__mro__
    methods = [one for base in bases if not base.__module__.startswith(_OURS) for one in vars(base).values()]
    codes = (getattr(inspect.unwrap(one), "__code__", None) for one in methods if callable(one))
    return any(_names(code, name) for code in codes if code is not None)


def _names(code: CodeType, name: str) -> bool:
    return name in code.co_names or any(_names(one, name) for one in code.co_consts if isinstance(one, CodeType))

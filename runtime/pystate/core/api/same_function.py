"""Equality of two functions of a job, as far as it can be determined: by code, defaults and closures."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Mapping
from inspect import CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

_Pairs = frozenset[tuple[int, int]]


def same_function(mine: Any, other: Any) -> bool | None:
    """Return whether two functions, or objects with methods, are equivalent; None if unknown.

    A lambda that each declaration creates again, or that came out of another pickle, is the same where its code, the
    variables it takes from around it and its defaults are, wherever its lines stand and whatever its arguments are called;
    an object with methods where its class and its fields are. Of what has neither fields nor an equality of its own, such as
    a lock, the type decides. The equality of other code is unknown.
    """
    try:
        return _same(mine, other, frozenset())
    except _OtherCode:
        return None


class _OtherCode(Exception):
    """Two functions are written differently."""


def _same(mine: Any, other: Any, above: _Pairs) -> bool:
    """Compare two values; `above` are the pairs that are being compared around them, for values may hold themselves."""
    if mine is other:
        return True
    pair = (id(mine), id(other))
    if type(mine) is not type(other) and _name(type(mine)) != _name(type(other)):  # a class may be nested in a function
        return False
    if pair in above:
        return True
    above |= {pair}
    if isinstance(mine, FunctionType):
        if not _same_code(mine.__code__, other.__code__):
            raise _OtherCode
        return _all_same(_carried(mine), _carried(other), above)
    if isinstance(mine, MethodType):
        return _all_same([mine.__func__, mine.__self__], [other.__func__, other.__self__], above)
    if isinstance(mine, functools.partial):
        return _all_same([mine.func, mine.args, mine.keywords], [other.func, other.args, other.keywords], above)
    if isinstance(mine, type):
        return _name(mine) == _name(other)
    if isinstance(mine, (list, tuple)):
        return _all_same(mine, other, above)
    if isinstance(mine, Mapping):
        return mine.keys() == other.keys() and all(_same(value, other[key], above) for key, value in mine.items())
    if isinstance(mine, float):
        return mine == other or (math.isnan(mine) and math.isnan(other))
    if "__eq__" in (name for base in type(mine).__mro__[:-1] for name in vars(base)):
        return _equal(mine, other)
    return _same(_fields(mine), _fields(other), above)


@functools.lru_cache(maxsize=1024)
def _same_code(mine: CodeType, other: CodeType) -> bool:
    """Compare the code of two functions without the names and places that it has in its file."""
    return mine is other or _code(mine) == _code(other)


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts]
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    if code.co_flags & CO_VARKEYWORDS or code.co_kwonlyargcount:
        constants.append(code.co_varnames)  # called by these names
    return code.co_code, constants, code.co_names, arguments, code.co_nlocals, code.co_freevars, len(code.co_cellvars)


def _name(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _all_same(mine: Any, others: Any, above: _Pairs) -> bool:
    return len(mine) == len(others) and all(_same(one, other, above) for one, other in zip(mine, others, strict=True))


def _equal(mine: Any, other: Any) -> bool:
    try:
        return bool(mine == other)
    except Exception:  # such as an array's, which compares its elements one by one
        return pickle.dumps(mine) == pickle.dumps(other)


def _carried(function: FunctionType) -> list[Any]:
    cells = [_content(cell) for cell in function.__closure__ or ()]
    return [cells, function.__defaults__, function.__kwdefaults__]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has no content yet
        return None


def _fields(value: Any) -> dict[str, Any]:
    fields = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__dict__" and hasattr(value, name):
                fields[name] = getattr(value, name)
    fields.pop("__weakref__", None)
    return fields

"""Copies of elements for a second owner, so that in-place changes aren't shared."""

from __future__ import annotations

import copy
import datetime
import decimal
import uuid
from collections.abc import Collection
from operator import is_
from typing import Any

from pystate.common.errors import RecordError
from pystate.common.row import Row, RowKind, row_like

UNCHANGING = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        decimal.Decimal,
        datetime.date,
        datetime.time,
        datetime.datetime,
        datetime.timedelta,
        uuid.UUID,
        RowKind,
    }
)
"""Types of values that can't be changed in place."""

_DEEPEST = 8
"""The nesting limit; deeper values may contain themselves."""


def copied(element: Any) -> Any:
    """Return a copy that shares no mutable part with an element; the element itself if it is immutable.

    Raises:
        RecordError: It can't be copied.
    """
    return _copied(element, _DEEPEST)


def _copied(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in UNCHANGING:
        return value
    if depth:
        depth -= 1
        if kind is list:
            return _parts(value, depth)
        if kind is tuple:
            if UNCHANGING.issuperset(map(type, value)):
                return value
            parts = _parts(value, depth)
            return value if all(map(is_, parts, value)) else tuple(parts)
        if kind is dict:  # what is hashed isn't changed
            return dict(zip(value, _parts(value.values(), depth), strict=True))
        if isinstance(value, Row):
            return row_like(value, _parts(value.values_list(), depth))
    return _of_any_kind(value)


def _parts(values: Collection[Any], depth: int) -> list[Any]:
    if UNCHANGING.issuperset(map(type, values)):
        return [*values]
    return [part if type(part) in UNCHANGING else _copied(part, depth) for part in values]


def _of_any_kind(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:  # whatever its own methods raise
        message = f"An element of type {type(value).__name__} has two owners and can't be copied: {error}."
        hint = "hand on plain values; or set pipeline.object-reuse = true, and let no function change what it gets"
        raise RecordError(message, hint=hint) from error

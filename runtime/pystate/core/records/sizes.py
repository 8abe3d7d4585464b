"""Estimates the sizes of records: batches are bounded by bytes.

The sizes are those of prepared values, before the conversion to Arrow. Text counts by characters, of which each takes one to
four bytes; values of fixed width count as nothing, and each record has a fixed overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pystate.common.errors import RecordError

Measure = Callable[[Any], int]
"""Returns about how many bytes a prepared value has; raises TypeError where it isn't of the type, as a null isn't."""

MAX_ROW_BYTES = (1 << 31) - 16
"""The largest row: a column of an Arrow batch and a row of Spark's go no further."""

_FIXED_BYTES = 8
_MAX_CHARACTER_BYTES = 4


def list_size(part: Measure | None) -> Measure:
    """Return the function that measures lists of such parts."""
    if part is None:
        return lambda values: _FIXED_BYTES * len(values)
    return lambda values: sum(part(value) for value in values if value is not None) + _FIXED_BYTES * len(values)


def map_size(key: Measure | None, value: Measure | None) -> Measure:
    """Return the function that measures lists of pairs of such parts."""
    keys, values = list_size(key), list_size(value)
    return lambda pairs: keys([one for one, _ in pairs]) + values([one for _, one in pairs])


def struct_size(parts: Mapping[Any, Measure]) -> Measure | None:
    """Return the function that measures dicts or tuples, of which only `parts` have variable size; None if no part has."""
    found = list(parts.items())
    if not found:
        return None
    if len(found) == 1:
        ((place, only),) = found
        return lambda struct: 0 if struct[place] is None else only(struct[place])

    def measure(struct: Any) -> int:
        size = 0
        for place, part in found:
            value = struct[place]
            if value is not None:
                size += part(value)
        return size

    return measure


def size_of(value: Any) -> int:
    """Return the size of any value, including null and values of a wrong type."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(size_of(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value)) + _FIXED_BYTES * len(value)
    return _FIXED_BYTES


def check_row(value: Any, size: int, where: str) -> None:
    """Reject a row that is too large for Arrow and Spark; only rows near the limit are measured exactly.

    Args:
        value: The prepared element.
        size: Its size as it was measured.
        where: The stream, for the error.

    Raises:
        RecordError: It is too large.
    """
    if size * _MAX_CHARACTER_BYTES <= MAX_ROW_BYTES:
        return
    exact = _exact_bytes(value)
    if exact > MAX_ROW_BYTES:
        raise too_large(exact, where)


def too_large(size: int, where: str) -> RecordError:
    """Return the error for a row that is too large for Arrow and Spark."""
    message = f"A row of {size:,} bytes is too large: a row can have {MAX_ROW_BYTES:,}."
    return RecordError(message, where=where, hint="split it into several rows, or write it to a file and send its path")


def _exact_bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(_exact_bytes(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple)):
        return sum(map(_exact_bytes, value))
    return size_of(value)

"""Offsets of a collection source, with a checksum that detects a changed collection.

The program carries the elements, so every driver of the job can read them again, on any machine. An offset is the number of
    elements read and their checksum: the elements that a savepoint has read must still be in the collection.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from pystate.common.errors import RestoreError
from pystate.common.files.foreign_json import parse_json
from pystate.common.row import Row


def collection_offset(elements: Sequence[Any], count: int) -> dict[str, Any]:
    """Return the offset after the first `count` elements."""
    digest = hashlib.sha256()
    for element in elements[:count]:
        digest.update(_digest(element))
    return {"index": count, "checksum": digest.hexdigest()[:32]}


def parse_offset(offset: str, where: str) -> tuple[int, str]:
    """Return the number of elements read and their checksum.

    Args:
        offset: As Spark's log has it.
        where: The source, for errors.

    Raises:
        RestoreError: It is the offset of another kind of source.
    """
    try:
        read = parse_json(offset)
        return int(read["index"]), str(read["checksum"])
    except (ValueError, TypeError, KeyError) as error:
        message = "The snapshot was written with another kind of source in the place of this collection."
        raise RestoreError(message, where=where, hint="give the new source another uid") from error


def check_offset(elements: Sequence[Any], count: int, checksum: str, where: str) -> None:
    """Check that the collection still begins with the elements that were read.

    Args:
        elements: The collection as it is now.
        count: How many were read.
        checksum: Of those.
        where: The source, for errors.

    Raises:
        RestoreError: The collection is shorter, or differs in what was read.
    """
    hint = "put the elements back, or give the source another uid and start with --allowNonRestoredState"
    if count > len(elements):
        message = f"{count} elements of the collection were read; now it has {len(elements)}."
        raise RestoreError(message, where=where, hint=hint)
    if collection_offset(elements, count)["checksum"] != checksum:
        message = f"The first {count} elements of the collection are not those that were read."
        raise RestoreError(message, where=where, hint=hint)


def _digest(value: Any) -> bytes:
    """Return a digest that is the same in every process; pickle's bytes depend on shared parts and on the order of sets."""
    if isinstance(value, Row):
        parts = [_digest(value.values_list())]
    elif isinstance(value, (list, tuple)):
        parts = [_digest(part) for part in value]
    elif isinstance(value, Mapping):
        parts = sorted(_digest(key) + _digest(part) for key, part in value.items())
    elif isinstance(value, (set, frozenset)):
        parts = sorted(_digest(part) for part in value)
    elif value is None or isinstance(value, (str, bytes, int, float, complex)):
        parts = [repr(value).encode()]
    else:
        parts = [_pickled(value)]
    return hashlib.sha256(b"\0".join([type(value).__qualname__.encode(), *parts])).digest()


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        # an object whose class, or a function, that no name leads to: what it is made of, by the names of its classes
        if isinstance(value, (type, FunctionType)):
            return f"{value.__module__}.{value.__qualname__}".encode()
        return _digest(value.__reduce_ex__(4))

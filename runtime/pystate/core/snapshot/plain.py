"""Plain data as bytes of msgpack, and checked access to it where it can't be trusted."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

import msgpack

from pystate.common.errors import CorruptSnapshotError

MAX_INT = 2**63 - 1

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


def unsound(what: str) -> CorruptSnapshotError:
    """Return the error for invalid data."""
    message = f"The snapshot's description is damaged: {what}."
    return CorruptSnapshotError(message)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_map(value: object, what: str) -> dict[Any, Any]:
    """Return `value`, checked to be a map."""
    if not isinstance(value, dict):
        raise unsound(what=f"{what} is {_shown(value)}, not a map")
    return value


def take(plain: dict[Any, Any], key: str) -> Any:
    """Return the entry `key`, which must exist."""
    if key not in plain:
        raise unsound(what=f"{key!r} is missing")
    return plain[key]


def take_int(plain: dict[Any, Any], key: str, low: int = 0, high: int = MAX_INT) -> int:
    """Return an integer within `low..high`."""
    value = take(plain, key)
    if type(value) is not int or not low <= value <= high:
        raise unsound(what=f"{key} is {_shown(value)}, not a number from {low} to {high}")
    return value


def take_text(plain: dict[Any, Any], key: str) -> str:
    """Return a text."""
    value = take(plain, key)
    if not isinstance(value, str):
        raise unsound(what=f"{key} is {_shown(value)}, not a text")
    return value


def take_optional_text(plain: dict[Any, Any], key: str) -> str | None:
    """Return a text or None."""
    return None if take(plain, key) is None else take_text(plain, key)


def take_text_if_there(plain: dict[Any, Any], key: str) -> str | None:
    """Return a text, None if the entry is None or missing, as in what older versions wrote."""
    return None if plain.get(key) is None else take_text(plain, key)


def take_bytes(plain: dict[Any, Any], key: str) -> bytes:
    """Return bytes."""
    value = take(plain, key)
    if not isinstance(value, bytes):
        raise unsound(what=f"{key} is {_shown(value)}, not bytes")
    return value


def take_enum(plain: dict[Any, Any], key: str, kind: type[E]) -> E:
    """Return the member of an enum that has the stored value."""
    value = take(plain, key)
    for member in kind:
        if type(value) is type(member.value) and value == member.value:
            return member
    raise unsound(what=f"{key} is {_shown(value)}, none of {', '.join(str(member.value) for member in kind)}")


def take_list(plain: dict[Any, Any], key: str, item: Callable[[object], T]) -> list[T]:
    """Return a list, each item made by `item`."""
    value = take(plain, key)
    if not isinstance(value, (list, tuple)):
        raise unsound(what=f"{key} is {_shown(value)}, not a list")
    return [item(one) for one in value]


def take_text_map(plain: dict[Any, Any], key: str) -> dict[str, str]:
    """Return a map from text to text."""
    value = as_map(take(plain, key), key)
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise unsound(what=f"{key} has an entry {_shown(name)}: {_shown(text)}, not text to text")
    return dict(value)


# Msgpack allocates a list by its stated length before it reads it, nested lists too; maps grow as they are read.
_MAX_LIST = 8192
_MAX_MAP = 1 << 17
UNREADABLE = (ValueError, TypeError, msgpack.exceptions.UnpackException)


def pack_plain(plain: Any) -> bytes:
    """Return plain data as bytes."""
    # a value of the configuration, or what somebody says about a savepoint, may hold any text
    data: bytes = msgpack.packb(plain, use_bin_type=True, unicode_errors="surrogatepass")
    return data


def unpack_plain(body: bytes | memoryview) -> Any:
    """Read plain data within limits; what is no such data raises one of `UNREADABLE`."""
    return msgpack.unpackb(
        body,
        raw=False,
        strict_map_key=False,
        max_array_len=_MAX_LIST,
        max_map_len=_MAX_MAP,
        max_ext_len=0,
        unicode_errors="surrogatepass",
    )

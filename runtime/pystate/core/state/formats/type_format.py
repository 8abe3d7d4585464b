"""The interface of msgpack formats."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

from pystate.common.errors import StateError


class _Packers(threading.local):
    """A packer per thread: creating one is more expensive than using it, and it isn't thread-safe."""

    def __init__(self) -> None:
        self.pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass").pack


_packers = _Packers()


def pack(plain: Any) -> bytes:
    """Return msgpack bytes of plain data."""
    return _packers.pack(plain)


def pack_all(values: Iterable[Any]) -> list[bytes]:
    """Return msgpack bytes of each plain value."""
    return list(map(_packers.pack, values))


class Right(NamedTuple):
    """When a value is valid without conversion: its exact type and, for an int, its range."""

    python_type: type
    low: int = 0
    high: int = -1


class Format(ABC):
    """The msgpack format of one type.

    Attributes:
        name: The type's name.
        has_extensions: Whether its bytes may hold msgpack extensions or maps.
        right: When a value is valid unchanged; None if the format must check.
        field_rights: The same for each field of a tuple; None for other types, and if the format must check.
    """

    name: str
    has_extensions: bool = False
    right: Right | None = None
    field_rights: Sequence[Right] | None = None

    def check(self, value: Any) -> Any:
        """Return the value in the stored form; of mutable values only the outer type is checked.

        Raises:
            StateError: The value isn't of the type.
        """
        self.to_plain(value)
        return value

    @abstractmethod
    def to_plain(self, value: Any) -> Any:
        """Return plain data for msgpack; raises StateError if the value, or a part of it, isn't of the type."""

    @abstractmethod
    def from_plain(self, plain: Any) -> Any:
        """Return the value; raises StateError, ValueError or TypeError if the data isn't of this type."""

    def to_bytes(self, value: Any) -> bytes:
        """Return the value's bytes."""
        return pack(self.to_plain(value))

    def all_to_plain(self, values: Sequence[Any]) -> list[Any]:
        """Return plain data for each value; see `to_plain`."""
        return list(map(self.to_plain, values))

    def all_from_plain(self, plains: Sequence[Any]) -> list[Any]:
        """Return the value of each; see `from_plain`."""
        return list(map(self.from_plain, plains))

    def wrong(self, value: Any, hint: str | None = None) -> StateError:
        """Return the error for a value of another type."""
        return StateError(f"{self.shown(value)} is not of type {self.name}.", hint=hint)

    @staticmethod
    def shown(value: Any) -> str:
        """Return a short text for a value and its Python type."""
        text = repr(value)
        return f"{text if len(text) <= 80 else f'{text[:77]}...'} ({type(value).__qualname__})"

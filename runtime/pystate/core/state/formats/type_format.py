"""How a type is written, in one class per type: as a value and as a key, one by one and by columns.

Values and keys one by one need no Arrow: the command line reads snapshots without it. What works on columns is given what
reads or writes them (`packed_columns.py`, `key_cells.py`), and that loads Arrow.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from pystate.common.errors import StateError
from pystate.core.state.not_in_columns import NotInColumnsError

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.state.formats.key_cells import KeyCells, KeyColumn
    from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn


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


@lru_cache
def _type_for_alias(alias: str) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 - the command line has no Arrow

    return pa.type_for_alias(alias)


class Format(ABC):
    """The format of one type.

    A value is msgpack, a key the tag of its type and a payload (`key_bytes.py`). What isn't certain to be the same by
    columns raises `NotInColumnsError` there, and is read or written one by one.

    Attributes:
        name: The type's name.
        has_extensions: Whether its values may hold msgpack extensions or maps.
        immutable: Whether values can't be changed in place.
        right: When a value is valid unchanged; None if the format must check.
        field_rights: The same for each field of a tuple; None for other types, and if the format must check.
        exact_type: The Python type whose every instance is valid; None if `check` is needed.
        direct_type: The Python type that msgpack writes as it is; None if values are converted.
        tag: The tag of its keys; None if it can't be a key.
        parts: The formats of its parts.
        in_columns: Whether there are columns of its values.
        arrow_alias: Arrow's name of the type of these columns.
        distinct: Whether values are equal in Python where they are in a column.
        carried: In an exchange, the types of values that Arrow converts or rejects itself as the type's rule does; None if
            there is no rule to keep, or `to_column` has it.
        overflowing: Those of them whose values may exceed the type's range, which is seen for a whole column only.
        converted: Whether values have another form in a column.
        sized: Whether their length differs, and is that of the form in a column.
    """

    name: str
    has_extensions: bool = False
    immutable: bool = True
    right: Right | None = None
    field_rights: Sequence[Right] | None = None
    exact_type: type | None = None
    direct_type: type | None = None
    tag: int | None = None
    parts: Sequence[Format] = ()
    in_columns: bool = True
    arrow_alias: str = "binary"
    distinct: bool = False
    carried: frozenset[type] | None = None
    overflowing: frozenset[type] = frozenset()
    converted: bool = False
    sized: bool = False

    # values, one by one

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

    # keys, one by one

    def encode_key(self, value: Any) -> bytes:
        """Return the payload of a key; raises StateError if it isn't of the type."""
        raise NotImplementedError(self.name)

    def decode_key(self, data: bytes) -> Any:
        """Return the key of a payload; raises CorruptSnapshotError or RestoreError if it has none of this type."""
        raise NotImplementedError(self.name)

    # columns

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of a column."""
        return _type_for_alias(self.arrow_alias)

    def to_column(self, value: Any) -> Any:
        """Return the form of a value in a column, where it has another."""
        return value

    def from_column(self, value: Any) -> Any:
        """Return the value of what a column has, where that has another form."""
        return value

    def read_values(self, cells: PackedCells) -> pa.Array:
        """Read a value of each cell."""
        raise NotInColumnsError

    def write_values(self, column: ValueColumn) -> pa.Array:
        """Return the bytes of the values of a column without nulls."""
        raise NotInColumnsError

    def read_keys(self, cells: KeyCells) -> pa.Array:
        """Return the keys of payloads."""
        raise NotInColumnsError

    def write_keys(self, column: KeyColumn) -> pa.Array:
        """Return the payloads of the keys of a column without nulls."""
        raise NotInColumnsError

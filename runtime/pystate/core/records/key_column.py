"""The key of a row as an Arrow column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array
from pystate.core.records.codec import ColumnConverter, Convert, column_converter, to_array
from pystate.core.records.sizes import Measure
from pystate.core.state.keys.keys import KeyCodec

_NATIVE_KEYS = frozenset(
    {
        TypeKind.STRING,
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
    }
)

_ENCODED = ColumnConverter(pa.binary())
_CONVERTED_KEYS = (TypeKind.BOOLEAN, TypeKind.FLOAT, TypeKind.DOUBLE)
"""Types of native keys whose equality differs from Python's."""


@dataclass(frozen=True)
class KeyColumn:
    """The key column of an edge's rows.

    Attributes:
        column: The name of the field.
        key_type: The declared type of the key; None for untyped keys.
    """

    column: str
    key_type: TypeInformation | None

    @property
    def native(self) -> bool:
        """Whether the field holds the key itself, not its encoded bytes (type tag and payload)."""
        return self.key_type is not None and (self.key_type.kind in _NATIVE_KEYS or is_byte_array(self.key_type))

    @property
    def is_plain(self) -> bool:
        """Whether the field's values are the internal keys, nulls among them."""
        return self.native and self.key_type is not None and self.key_type.kind not in _CONVERTED_KEYS

    @property
    def size(self) -> Measure | None:
        """Measures prepared keys; None if all have the same small size."""
        return column_converter(self.key_type).size if self.native else len

    def field(self) -> pa.Field:
        """Return the Arrow field."""
        return pa.field(self.column, column_converter(self.key_type).arrow_type if self.native else pa.binary())

    def preparer(self) -> Convert | None:
        """Return the function that prepares a key for `encode`; None if keys need no preparation."""
        if self.native:
            return None
        codec = KeyCodec(self.key_type)
        return lambda key: codec.encode(codec.internal(key))

    def encode(self, keys: list[Any], where: str) -> pa.Array:
        """Return the column of the prepared keys."""
        if self.key_type is None or not self.native:
            return to_array(keys, _ENCODED, where)
        return to_array(keys, column_converter(self.key_type), where, type_name=self.key_type.name)

    def decoder(self, codec: KeyCodec) -> Callable[[pa.Array], list[Any]]:
        """Return the function that converts the column to the codec's internal keys.

        A null is the key None.
        """
        convert: Convert | None = None
        if not self.native:
            convert = codec.decode
        elif not self.is_plain:
            convert = codec.internal

        def decode(array: pa.Array) -> list[Any]:
            keys: list[Any] = array.to_pylist()
            if convert is None:
                return keys
            if array.null_count:
                null = codec.internal(None)
                return [null if key is None else convert(key) for key in keys]
            return [convert(key) for key in keys]

        return decode

"""Types of keys, records and state: PyFlink's `Types` factory and the `TypeInformation` it makes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from pystate.common.row import Row, default_names
from pystate.common.text.plain_text import lone_surrogate

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pystate.common.time import Instant

    T_co = TypeVar("T_co", covariant=True, default=Any)
    E = TypeVar("E")
    K = TypeVar("K")
    V = TypeVar("V")
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

_MAX_DEPTH = 50


class TypeKind(str, Enum):
    """The kinds of types; the values are stable, since they are part of snapshots."""

    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    BYTE = "BYTE"
    SHORT = "SHORT"
    INT = "INT"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    CHAR = "CHAR"
    BIG_INT = "BIG_INT"
    BIG_DEC = "BIG_DEC"
    SQL_DATE = "SQL_DATE"
    SQL_TIME = "SQL_TIME"
    SQL_TIMESTAMP = "SQL_TIMESTAMP"
    INSTANT = "INSTANT"
    PICKLED_BYTE_ARRAY = "PICKLED_BYTE_ARRAY"
    ROW = "ROW"
    TUPLE = "TUPLE"
    LIST = "LIST"
    MAP = "MAP"
    PRIMITIVE_ARRAY = "PRIMITIVE_ARRAY"
    BASIC_ARRAY = "BASIC_ARRAY"
    OBJECT_ARRAY = "OBJECT_ARRAY"


_COMPOSITE_ARITY: dict[TypeKind, int | None] = {
    TypeKind.ROW: None,
    TypeKind.TUPLE: None,
    TypeKind.LIST: 1,
    TypeKind.MAP: 2,
    TypeKind.PRIMITIVE_ARRAY: 1,
    TypeKind.BASIC_ARRAY: 1,
    TypeKind.OBJECT_ARRAY: 1,
}
_FLINK_NAMES: dict[TypeKind, str] = {
    TypeKind.STRING: "String",
    TypeKind.BOOLEAN: "Boolean",
    TypeKind.BYTE: "Byte",
    TypeKind.SHORT: "Short",
    TypeKind.INT: "Integer",
    TypeKind.LONG: "Long",
    TypeKind.FLOAT: "Float",
    TypeKind.DOUBLE: "Double",
    TypeKind.CHAR: "Char",
    TypeKind.BIG_INT: "BigInteger",
    TypeKind.BIG_DEC: "BigDecimal",
    TypeKind.SQL_DATE: "DateTypeInfo",
    TypeKind.SQL_TIME: "TimeTypeInfo",
    TypeKind.SQL_TIMESTAMP: "TimestampTypeInfo",
    TypeKind.INSTANT: "Instant",
    TypeKind.PICKLED_BYTE_ARRAY: "PickledByteArrayTypeInfo",
}
_PRIMITIVES = frozenset(
    {
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
        TypeKind.CHAR,
    }
)


class TypeInformation(Generic[T_co]):
    """The type of a key, a record or a state. Made by `Types`; immutable, compared by content.

    Its type argument is the type of its values in Python, for type checkers: `Types.LONG()` is a `TypeInformation[int]`.

    Attributes:
        kind: Which type it is.
        elements: Types of the parts: fields of a ROW or TUPLE, the element of a LIST or array, key and value of a MAP.
        names: Names of a named ROW's fields; else None.
        defaults: By name, what a restore puts into a field of a named ROW that older state doesn't have; None if there is
            no entry. It says nothing about values: it is not compared, and not in `to_plain`.
    """

    __slots__ = ("defaults", "elements", "kind", "names")

    def __init__(
        self,
        kind: TypeKind,
        elements: Sequence[TypeInformation] = (),
        names: Sequence[str] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind = TypeKind(kind)
        self.elements = tuple(elements)
        self.names = None if names is None else tuple(names)
        self.defaults = dict(defaults or {})
        for element in self.elements:
            if not isinstance(element, TypeInformation):
                message = f"The parts of {self.kind.value} must be types, such as Types.LONG(), not {element!r}."
                raise TypeError(message)
        arity = _COMPOSITE_ARITY.get(self.kind, 0)
        if arity is not None and len(self.elements) != arity:
            message = f"{self.kind.value} takes {arity} types, not {len(self.elements)}."
            raise ValueError(message)
        if self.names is not None:
            self._check_names(self.names)
        unknown = [name for name in self.defaults if name not in (self.names or ())]
        if unknown:
            message = f"The row has no field {unknown[0]!r} to give a default."
            raise ValueError(message)
        if self.kind is TypeKind.PRIMITIVE_ARRAY and self.elements[0].kind not in _PRIMITIVES:
            message = f"PRIMITIVE_ARRAY is for numbers, booleans and characters, not {self.elements[0].name}."
            raise ValueError(message)
        if self.kind is TypeKind.BASIC_ARRAY and self.elements[0].elements:
            message = f"BASIC_ARRAY is for basic types, not {self.elements[0].name}; use OBJECT_ARRAY."
            raise ValueError(message)

    def _check_names(self, names: tuple[str, ...]) -> None:
        if self.kind is not TypeKind.ROW:
            message = f"Only a ROW has field names, not {self.kind.value}."
            raise ValueError(message)
        if len(names) != len(self.elements):
            message = f"A row of {len(self.elements)} types can't have {len(names)} names."
            raise ValueError(message)
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            message = f"The names of a row's fields must be different strings: {list(names)!r}."
            raise ValueError(message)
        lone = next((name for name in names if lone_surrogate(name) is not None), None)
        if lone is not None:
            message = f"The name of a field can't be {lone!r}: it has half of a surrogate pair, which no file can hold."
            raise ValueError(message)

    @property
    def name(self) -> str:
        """The name as stable text, such as `ROW<word STRING, count LONG>`, for errors and listings."""
        if self.kind is TypeKind.ROW and self.names is not None:
            fields = ", ".join(f"{name} {part.name}" for name, part in zip(self.names, self.elements, strict=True))
            return f"ROW<{fields}>"
        if self.kind in _COMPOSITE_ARITY:
            return f"{self.kind.value}<{', '.join(part.name for part in self.elements)}>"
        return self.kind.value

    def get_field_names(self) -> list[str]:
        """Return the names of a ROW's fields; `f0`, `f1`, ... by default."""
        return list(self.names) if self.names is not None else [f"f{i}" for i in range(len(self.elements))]

    @property
    def row_names(self) -> tuple[str, ...]:
        """The names of rows of this type: those of the type, else `f0`, `f1`, ..."""
        return default_names(len(self.elements)) if self.names is None else self.names

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field of a row type, -1 if there is none of that name."""
        names = self.get_field_names()
        return names.index(field_name) if field_name in names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the parts."""
        return list(self.elements)

    def to_plain(self) -> dict[str, Any]:
        """Return the type as JSON-able data; `from_plain` reads it back."""
        plain: dict[str, Any] = {"type": self.kind.value}
        if self.kind in _COMPOSITE_ARITY:
            plain["elements"] = [part.to_plain() for part in self.elements]
        if self.names is not None:
            plain["names"] = list(self.names)
        return plain

    @staticmethod
    def from_plain(plain: Any) -> TypeInformation:
        """Rebuild a type from `to_plain`'s data.

        Raises:
            ValueError: The data describes no type.
        """
        return _from_plain(plain, 0)

    def __eq__(self, other: object) -> bool:
        """Compare by content."""
        if not isinstance(other, TypeInformation):
            return NotImplemented
        return self.kind is other.kind and self.elements == other.elements and self.names == other.names

    def __hash__(self) -> int:
        """Hash the content."""
        return hash((self.kind, self.elements, self.names))

    def __str__(self) -> str:
        """Return PyFlink's name of the type, such as `RowTypeInfo(word: String, count: Long)`."""
        if self.kind in _FLINK_NAMES:
            return _FLINK_NAMES[self.kind]
        parts = [str(part) for part in self.elements]
        if self.kind is TypeKind.ROW or self.kind is TypeKind.TUPLE:
            if self.names is not None:
                parts = [f"{name}: {part}" for name, part in zip(self.names, parts, strict=True)]
            return f"{self.kind.value.title()}TypeInfo({', '.join(parts)})"
        return f"{self.kind.value.title().replace('_', '')}TypeInfo<{', '.join(parts)}>"

    def __repr__(self) -> str:
        """Return the call that makes the type."""
        if self.kind is TypeKind.ROW and self.names is not None:
            defaults = f", defaults={self.defaults!r}" if self.defaults else ""
            return f"Types.ROW_NAMED({list(self.names)!r}, {list(self.elements)!r}{defaults})"
        if self.kind in (TypeKind.ROW, TypeKind.TUPLE):
            return f"Types.{self.kind.value}({list(self.elements)!r})"
        return f"Types.{self.kind.value}({', '.join(map(repr, self.elements))})"


def _from_plain(plain: Any, depth: int) -> TypeInformation:
    try:
        if depth > _MAX_DEPTH:
            message = f"A type can't be nested deeper than {_MAX_DEPTH} levels."
            raise ValueError(message)
        elements = [_from_plain(part, depth + 1) for part in plain.get("elements", ())]
        return TypeInformation(TypeKind(plain["type"]), elements, plain.get("names"))
    except (AttributeError, KeyError, TypeError) as error:
        message = f"Not the description of a type: {error!r}."
        raise ValueError(message) from error


class Types:
    """The factory of types, with PyFlink's names."""

    @staticmethod
    def STRING() -> TypeInformation[str]:
        """Return the type of `str`."""
        return TypeInformation(TypeKind.STRING)

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """Return the type of `bool`."""
        return TypeInformation(TypeKind.BOOLEAN)

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """Return the type of `int` from -128 to 127."""
        return TypeInformation(TypeKind.BYTE)

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """Return the type of `int` in 16 bits."""
        return TypeInformation(TypeKind.SHORT)

    @staticmethod
    def INT() -> TypeInformation[int]:
        """Return the type of `int` in 32 bits."""
        return TypeInformation(TypeKind.INT)

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """Return the type of `int` in 64 bits."""
        return TypeInformation(TypeKind.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """Return the type of `float` rounded to 32 bits."""
        return TypeInformation(TypeKind.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """Return the type of `float`."""
        return TypeInformation(TypeKind.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """Return the type of `str` of one character."""
        return TypeInformation(TypeKind.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """Return the type of `int` of any size."""
        return TypeInformation(TypeKind.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """Return the type of `decimal.Decimal` (finite)."""
        return TypeInformation(TypeKind.BIG_DEC)

    @staticmethod
    def SQL_DATE() -> TypeInformation[dt.date]:
        """Return the type of `datetime.date`."""
        return TypeInformation(TypeKind.SQL_DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation[dt.time]:
        """Return the type of `datetime.time` without a time zone."""
        return TypeInformation(TypeKind.SQL_TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[dt.datetime]:
        """Return the type of `datetime.datetime` without a time zone."""
        return TypeInformation(TypeKind.SQL_TIMESTAMP)

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """Return the type of `pystate.common.Instant`."""
        return TypeInformation(TypeKind.INSTANT)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:
        """Return the type of any picklable object; it is pickled in snapshots."""
        return TypeInformation(TypeKind.PICKLED_BYTE_ARRAY)

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> TypeInformation[Row]:
        """Return the type of `Row` with unnamed fields of these types."""
        return TypeInformation(TypeKind.ROW, field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> TypeInformation[Row]:
        """Return the type of `Row` with fields of these names and types.

        Args:
            field_names: The names.
            field_types: The types, in the same order.
            defaults: Ours: by name, what a field gets when state is restored that was written without it; None if a
                name is left out.
        """
        return TypeInformation(TypeKind.ROW, field_types, field_names, defaults)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TypeInformation[tuple[Any, ...]]:
        """Return the type of `tuple` with parts of these types."""
        return TypeInformation(TypeKind.TUPLE, field_types)

    @staticmethod
    def LIST(element_type_info: TypeInformation[E]) -> TypeInformation[list[E]]:
        """Return the type of `list` of elements of a type."""
        return TypeInformation(TypeKind.LIST, (element_type_info,))

    @staticmethod
    def MAP(key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]) -> TypeInformation[dict[K, V]]:
        """Return the type of `dict` from a type to a type."""
        return TypeInformation(TypeKind.MAP, (key_type_info, value_type_info))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation[Any]:
        """Return the type of `list` of numbers, none of them None; of BYTE it is the type of `bytes`."""
        return TypeInformation(TypeKind.PRIMITIVE_ARRAY, (element_type,))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[E]) -> TypeInformation[list[E]]:
        """Return the type of `list` of a basic type."""
        return TypeInformation(TypeKind.BASIC_ARRAY, (element_type,))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[E]) -> TypeInformation[list[E]]:
        """Return the type of `list` of any type."""
        return TypeInformation(TypeKind.OBJECT_ARRAY, (element_type,))

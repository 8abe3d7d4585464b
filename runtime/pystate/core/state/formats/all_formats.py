"""The msgpack formats of all types.

A `Format` turns a value into plain data that msgpack says exactly, checking it on the way, and back. Typed values carry no
type marks (the type stands once in the serializer snapshot), and what is none of its type becomes one, or is refused, by the
rules of `common/type_rules.py`. Untyped values use the extension codes below, and are never written as a neighbour of what
they are: a subclass, a set, a bytearray is an error, not a list or bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from pystate.common.errors import StateError
from pystate.common.row import Row, RowKind, inserted_values, is_row, rows_of
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import WrongValueError, as_dict, as_list, as_row, as_tuple
from pystate.core.state.formats.field_checks import columns_are_right, fields_check
from pystate.core.state.formats.scalar_formats import SCALARS, bytes_format
from pystate.core.state.formats.type_format import Format, Right
from pystate.core.state.formats.untyped_format import UNTYPED


class _Composite(Format):
    def __init__(self, type_info: TypeInformation, parts: list[Format]) -> None:
        self.name = type_info.name
        self.parts = parts
        self._type_info = type_info

    def _as(self, conform: Callable[[Any, TypeInformation], Any], value: Any) -> Any:
        """Convert the outer type of a value; its parts are unchanged."""
        try:
            return conform(value, self._type_info)
        except WrongValueError as error:
            raise self.wrong(value, error.why) from None


class _List(_Composite):
    def __init__(self, type_info: TypeInformation, parts: list[Format]) -> None:
        super().__init__(type_info, parts)
        self._element = self.parts[0]
        self._nullable = type_info.kind is not TypeKind.PRIMITIVE_ARRAY
        self._all_right = _list_check(self._element)

    def check(self, value: Any) -> Any:
        return value if type(value) is list else self._as(as_list, value)

    def to_plain(self, value: Any) -> Any:
        if type(value) is not list:
            value = self._as(as_list, value)
        if self._all_right(value):
            return value
        to_plain = self._element.to_plain
        if self._nullable:
            return [None if item is None else to_plain(item) for item in value]
        return [to_plain(item) for item in value]

    def from_plain(self, plain: Any) -> Any:
        if type(plain) is not list:
            raise self.wrong(plain)
        if self._all_right(plain):
            return plain
        from_plain = self._element.from_plain
        return [None if item is None else from_plain(item) for item in plain]


def _list_check(element: Format) -> Callable[[list[Any]], bool]:
    """Return a fast check whether all elements of a list are exactly of the type."""
    right = element.right
    if right is None:
        return lambda values: not values
    exact, low, high = right

    def all_integers(values: list[Any]) -> bool:
        for value in values:
            if type(value) is not int or value > high or value < low:
                return False
        return True

    def all_exact(values: list[Any]) -> bool:
        for value in values:  # noqa: SIM110 - all(...) takes twice as long
            if type(value) is not exact:
                return False
        return True

    return all_integers if exact is int else all_exact


def _fields_check(parts: list[Format]) -> Callable[[Sequence[Any]], bool]:
    """Return a fast check whether all fields, as many as the parts, are exactly of their types."""
    rights = [part.right for part in parts if part.right is not None]
    return fields_check(rights) if len(rights) == len(parts) else lambda values: False


class _Map(_Composite):
    """The format of maps: a flat list of keys and values, so that keys can be of any type."""

    def check(self, value: Any) -> Any:
        return value if type(value) is dict else self._as(as_dict, value)

    def to_plain(self, value: Any) -> Any:
        if type(value) is not dict:
            value = self._as(as_dict, value)
        key_to_plain, value_to_plain = self.parts[0].to_plain, self.parts[1].to_plain
        plain: list[Any] = []
        for key, item in value.items():
            plain.append(key_to_plain(key))
            plain.append(None if item is None else value_to_plain(item))
        return plain

    def from_plain(self, plain: Any) -> Any:
        if type(plain) is not list or len(plain) % 2:
            raise self.wrong(plain)
        key_from_plain, value_from_plain = self.parts[0].from_plain, self.parts[1].from_plain
        pairs = zip(plain[::2], plain[1::2], strict=True)
        return {key_from_plain(key): None if item is None else value_from_plain(item) for key, item in pairs}


class _Tuple(_Composite):
    def __init__(self, type_info: TypeInformation, parts: list[Format], *, immutable: bool) -> None:
        super().__init__(type_info, parts)
        self._deep = immutable
        self._all_right = _fields_check(self.parts)
        rights = [part.right for part in parts if part.right is not None]
        self.field_rights = rights if immutable and len(rights) == len(parts) else None

    def check(self, value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(self.parts):
            value = self._as(as_tuple, value)
        if not self._deep or self._all_right(value):
            return value
        return tuple(None if item is None else part.check(item) for part, item in zip(self.parts, value, strict=True))

    def to_plain(self, value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(self.parts):
            value = self._as(as_tuple, value)
        if self._all_right(value):
            return value  # msgpack writes tuples as it writes lists
        return [None if item is None else part.to_plain(item) for part, item in zip(self.parts, value, strict=True)]

    def from_plain(self, plain: Any) -> Any:
        if type(plain) is list and len(plain) == len(self.parts) and self._all_right(plain):
            return tuple(plain)
        return tuple(None if item is None else part.from_plain(item) for part, item in zip(self.parts, plain, strict=True))


class _Row(_Composite):
    """The format of rows: the kind's number, then the values in the type's order. Missing names are the type's."""

    def __init__(self, type_info: TypeInformation, parts: list[Format]) -> None:
        super().__init__(type_info, parts)
        self._row_names = type_info.row_names
        self._is_named = bool(type_info.names)
        rights = [part.right for part in parts if part.right is not None]
        self._rights = rights if parts and len(rights) == len(parts) else None
        self._all_right = _fields_check(self.parts)
        for name, part in zip(type_info.names or (), self.parts, strict=False):
            self._check_default(part, name, type_info.defaults.get(name))

    def _check_default(self, part: Format, name: str, default: Any) -> None:
        try:
            if default is not None:
                part.to_plain(default)
        except StateError as error:
            message = f"The default of field {name!r} of {self.name} is wrong: {error.message}"
            raise StateError(message, hint=error.hint) from error

    def check(self, value: Any) -> Any:
        if not is_row(value):
            value = self._as(as_row, value)
        if len(value) != len(self.parts):
            raise self.wrong(value, f"give it {len(self.parts)} fields; it has {len(value)}")
        names = value.field_names()
        if names is not None and names != self._row_names and set(names) != set(self._row_names):
            if not self._is_named:
                raise self.wrong(value, "declare the row's field names with Types.ROW_NAMED")
            missing = next(name for name in self._row_names if name not in names)
            raise self.wrong(value, f"give it the field {missing!r}; it has {', '.join(map(repr, names))}")
        return value

    def to_plain(self, value: Any) -> Any:
        value = self.check(value)
        names, values = value.field_names(), value.values_list()
        if names is not None and names != self._row_names:
            values = [value[name] for name in self._row_names]
        kind = value.get_row_kind()
        plain: list[Any] = [0 if kind is RowKind.INSERT else kind.value]
        if self._all_right(values):
            plain += values
            return plain
        for name, part, item in zip(self._row_names, self.parts, values, strict=True):
            try:
                plain.append(None if item is None else part.to_plain(item))
            except StateError as error:
                message = f"Field {name!r}: {error.message}"
                raise StateError(message, hint=error.hint) from error
        return plain

    def from_plain(self, plain: Any) -> Any:
        kind, *values = plain
        if len(values) != len(self.parts) or not self._all_right(values):
            values = [None if item is None else part.from_plain(item) for part, item in zip(self.parts, values, strict=True)]
        row = Row.of_fields(self._row_names, values)
        if kind != 0:
            row.set_row_kind(RowKind(kind))
        return row

    def all_to_plain(self, values: Sequence[Any]) -> list[Any]:
        fields = inserted_values(self._row_names, values)
        if fields is None or self._rights is None or not columns_are_right(self._rights, fields):
            return super().all_to_plain(values)
        return [[0, *row] for row in fields]

    def all_from_plain(self, plains: Sequence[Any]) -> list[Any]:
        if self._rights is None or not columns_are_right([_INSERTED, *self._rights], plains):
            return super().all_from_plain(plains)
        return rows_of(self._row_names, [map(itemgetter(place), plains) for place in range(1, 1 + len(self.parts))])


_INSERTED = Right(int, 0, 0)
"""The check for the number of the most common row kind."""


def composite_format(type_info: TypeInformation, parts: list[Format], *, immutable: bool) -> Format:
    """Return the format of a type with parts.

    Args:
        type_info: The type.
        parts: The formats of its parts.
        immutable: Whether its values can't be changed in place.
    """
    if type_info.kind is TypeKind.TUPLE:
        return _Tuple(type_info, parts, immutable=immutable)
    if type_info.kind is TypeKind.ROW:
        return _Row(type_info, parts)
    if type_info.kind is TypeKind.MAP:
        return _Map(type_info, parts)
    return _List(type_info, parts)


def is_immutable(type_info: TypeInformation) -> bool:
    """Return whether values of a type are immutable."""
    if type_info.kind is TypeKind.TUPLE:
        return all(map(is_immutable, type_info.elements))
    return _is_bytes(type_info) or (type_info.kind in SCALARS and type_info.kind is not TypeKind.PICKLED_BYTE_ARRAY)


def _is_bytes(type_info: TypeInformation) -> bool:
    return type_info.kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE


def format_for(type_info: TypeInformation | None) -> Format:
    """Return the format of a type; None is the untyped value."""
    if type_info is None:
        return UNTYPED
    scalar = SCALARS.get(type_info.kind)
    if scalar is not None:
        return scalar
    if _is_bytes(type_info):
        return bytes_format(type_info.name)
    parts = [format_for(part) for part in type_info.elements]
    return composite_format(type_info, parts, immutable=is_immutable(type_info))

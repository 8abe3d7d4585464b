"""Schema evolution of state from one type to another: Flink's rules for POJOs, and widening of numbers.

Fields of named rows are matched by name: an added one gets its default, a removed one is dropped. Numbers may become wider.
Both work at any depth but in the keys of maps. A value that is written untyped is checked against the new type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pystate.common.errors import RestoreError, StateError
from pystate.common.row import Row, is_row
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import LISTS
from pystate.core.state.formats.all_formats import format_for
from pystate.core.state.formats.type_format import Format
from pystate.core.state.formats.untyped_format import unpack

Convert = Callable[[Any], Any]

_VALUE_REMEDY = (
    "declare a type that has all values, such as the one they were written with, or give the new state another name"
)
_FLOAT = TypeKind.FLOAT
_DOUBLE = TypeKind.DOUBLE
_INTEGERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.BIG_INT)
_NUMBERS = frozenset({*_INTEGERS, _FLOAT, _DOUBLE})
# kinds whose every value is exact in the wider kind; also LONG -> DOUBLE, with a check of each value
_WIDER: dict[TypeKind, frozenset[TypeKind]] = {
    TypeKind.BYTE: frozenset({*_INTEGERS[1:], _FLOAT, _DOUBLE}),
    TypeKind.SHORT: frozenset({*_INTEGERS[2:], _FLOAT, _DOUBLE}),
    TypeKind.INT: frozenset({*_INTEGERS[3:], _DOUBLE}),
    TypeKind.LONG: frozenset({TypeKind.BIG_INT, _DOUBLE}),
    TypeKind.FLOAT: frozenset({_DOUBLE}),
}


class SchemaCompatibility(Enum):
    """The compatibility of values written by an older serializer (Flink's `TypeSerializerSchemaCompatibility`)."""

    AS_IS = "AS_IS"  # bytes and values are those of the new type
    RECONFIGURED = "RECONFIGURED"  # every value is one of the new type, but for names, or for how its bytes look
    AFTER_MIGRATION = "AFTER_MIGRATION"  # values are converted, which may refuse one
    INCOMPATIBLE = "INCOMPATIBLE"


@dataclass(frozen=True)
class Resolution:
    """The migration of old values on restore.

    Attributes:
        compatibility: The verdict.
        migrate: Makes the new value of an old one, which it may take over: bytes become
            `new.serialize(migrate(old.deserialize(data)))`. None if the bytes stay as they are, or nothing helps. Raises
            RestoreError for a value that the new type doesn't have.
        reason: Why it is INCOMPATIBLE, as a sentence; else empty.
    """

    compatibility: SchemaCompatibility
    migrate: Convert | None = None
    reason: str = ""


class _IncompatibleError(Exception):
    """The types are incompatible; the text follows the names of the two types in the message."""


class _MisfitError(Exception):
    """A value can't be converted; the text is the reason."""


@dataclass(frozen=True)
class _Change:
    """The change from one type to another: the verdict, and the conversion of a non-None value (None: unchanged)."""

    compatibility: SchemaCompatibility
    convert: Convert | None = None


_SAME = _Change(SchemaCompatibility.AS_IS)
_RANK = {SchemaCompatibility.AS_IS: 0, SchemaCompatibility.RECONFIGURED: 1, SchemaCompatibility.AFTER_MIGRATION: 2}


def resolve_types(old: TypeInformation | None, new: TypeInformation | None, state_name: str = "") -> Resolution:
    """Return the migration of values from a type to a new type.

    Args:
        old: The type they were written with; None for untyped.
        new: The type they are to have; None for untyped.
        state_name: What errors of `migrate` name.
    """
    if old == new:
        return Resolution(SchemaCompatibility.AS_IS)
    try:
        if old is None:
            assert new is not None  # noqa: S101 - else they were equal
            change = _fit(new)
        elif new is None:
            change = _forget_type(old)
        else:
            change = _resolve(old, new, "")
    except _IncompatibleError as error:
        why = f": {error}" if str(error) else ""
        return Resolution(SchemaCompatibility.INCOMPATIBLE, reason=f"{_name(old)} can't become {_name(new)}{why}.")
    return Resolution(change.compatibility, _guarded(change.convert, state_name, _name(old), _name(new)))


def _name(type_info: TypeInformation | None) -> str:
    return "untyped" if type_info is None else type_info.name


def _guarded(convert: Convert | None, state_name: str, old_name: str, new_name: str) -> Convert:
    def migrate(value: Any) -> Any:
        if value is None or convert is None:
            return value
        try:
            return convert(value)
        except _MisfitError as error:
            which = f"State {state_name!r}" if state_name else "The state"
            message = f"{which} was written as {old_name} and is now {new_name}, but has a value that doesn't fit: {error}"
            raise RestoreError(message, hint=_VALUE_REMEDY) from None

    return migrate


def _resolve(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    """Compare two types at a path, which is empty at the top; raises `_IncompatibleError`."""
    if old == new:
        return _SAME
    if old.kind is not new.kind:
        return _widen(old, new, path)
    if old.kind is TypeKind.ROW:
        return _named_row(old, new, path) if old.names is not None and new.names is not None else _row(old, new, path)
    if old.kind is TypeKind.TUPLE:
        return _tuple(old, new, path)
    if old.kind is TypeKind.MAP:
        return _map(old, new, path)
    if old.kind in LISTS and not (old.kind is TypeKind.PRIMITIVE_ARRAY and _has_bytes(old, new)):
        return _list(old, new, path)
    raise _changed(old, new, path)


def _has_bytes(*arrays: TypeInformation) -> bool:
    """Return whether one of the types is the array whose values are `bytes` rather than lists."""
    return any(array.elements[0].kind is TypeKind.BYTE for array in arrays)


def _changed(old: TypeInformation, new: TypeInformation, path: str) -> _IncompatibleError:
    why = ""
    if old.kind in _NUMBERS and new.kind in _NUMBERS:
        why = f"{new.name} can't hold every {old.name} exactly"
    elif TypeKind.PICKLED_BYTE_ARRAY in (old.kind, new.kind):
        why = "pickled values are never converted"
    if not path:
        return _IncompatibleError(why)
    return _IncompatibleError(f"{path} changed from {old.name} to {new.name}" + (f", and {why}" if why else ""))


def _below(path: str, part: str) -> str:
    return f"{part} of {path}" if path else part


def _widen(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    if new.kind not in _WIDER.get(old.kind, ()):
        raise _changed(old, new, path)
    if new.kind in _INTEGERS or old.kind is _FLOAT:
        return _Change(SchemaCompatibility.AFTER_MIGRATION)
    if old.kind is not TypeKind.LONG:
        return _Change(SchemaCompatibility.AFTER_MIGRATION, float)

    def long_to_double(value: int) -> float:
        wide = float(value)
        if wide != value:
            message = f"{f'{path} is ' if path else ''}{value}, which no DOUBLE holds exactly."
            raise _MisfitError(message)
        return wide

    return _Change(SchemaCompatibility.AFTER_MIGRATION, long_to_double)


def _verdict(changes: list[_Change], least: SchemaCompatibility = SchemaCompatibility.AS_IS) -> SchemaCompatibility:
    return max([least, *(change.compatibility for change in changes)], key=_RANK.__getitem__)


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _list(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    change = _resolve(old.elements[0], new.elements[0], _below(path, "the elements"))
    convert = change.convert
    if convert is None:
        return change
    return _Change(change.compatibility, lambda value: [_converted(convert, item) for item in value])


def _map(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    old_key, new_key = old.elements[0], new.elements[0]
    if old_key != new_key:
        message = f"{_below(path, 'the keys')} changed from {old_key.name} to {new_key.name}, and a key type never changes"
        raise _IncompatibleError(message)
    change = _resolve(old.elements[1], new.elements[1], _below(path, "the values"))
    convert = change.convert
    if convert is None:
        return change
    return _Change(change.compatibility, lambda value: {key: _converted(convert, item) for key, item in value.items()})


def _by_position(old: TypeInformation, new: TypeInformation, path: str, what: str) -> list[_Change]:
    if len(old.elements) != len(new.elements):
        counts = f"{len(new.elements)} {what}s in the place of {len(old.elements)}"
        message = f"{path or 'it'} has {counts}, and only fields with names come and go"
        raise _IncompatibleError(message)
    pairs = zip(old.elements, new.elements, strict=True)
    return [_resolve(mine, theirs, _below(path, f"{what} {index}")) for index, (mine, theirs) in enumerate(pairs)]


def _tuple(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    changes = _by_position(old, new, path, "part")
    converts = [change.convert for change in changes]
    if not any(converts):
        return _Change(_verdict(changes))
    return _Change(_verdict(changes), lambda value: tuple(map(_converted, converts, value)))


def _row(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    """Compare rows by position, if one or both have no names."""
    changes = _by_position(old, new, path, "field")
    converts = [change.convert for change in changes]

    def convert(row: Row) -> Row:
        return _new_row(row, new, list(map(_converted, converts, row)))

    return _Change(
        _verdict(changes, SchemaCompatibility.AS_IS if old.names == new.names else SchemaCompatibility.RECONFIGURED), convert
    )


def _named_row(old: TypeInformation, new: TypeInformation, path: str) -> _Change:
    assert old.names is not None  # noqa: S101 - the caller looked
    assert new.names is not None  # noqa: S101
    index_of = {name: index for index, name in enumerate(old.names)}
    changes: list[_Change] = []
    makers: list[Callable[[list[Any]], Any]] = []
    for name, part in zip(new.names, new.elements, strict=True):
        index = index_of.get(name)
        if index is None:
            makers.append(_default(part, new.defaults.get(name)))
            continue
        change = _resolve(old.elements[index], part, _below(path, f"field {name!r}"))
        changes.append(change)
        makers.append(_taken(index, change.convert))
    same_fields = old.names == new.names
    verdict = _verdict(changes, SchemaCompatibility.AS_IS if same_fields else SchemaCompatibility.AFTER_MIGRATION)
    return _Change(verdict, lambda row: _new_row(row, new, [make(row.values_list()) for make in makers]))


def _new_row(old: Row, new_type: TypeInformation, values: list[Any]) -> Row:
    row = Row.of_fields(new_type.row_names, values)
    row.set_row_kind(old.get_row_kind())
    return row


def _taken(index: int, convert: Convert | None) -> Callable[[list[Any]], Any]:
    return lambda values: _converted(convert, values[index])


def _default(type_info: TypeInformation, default: Any) -> Callable[[list[Any]], Any]:
    """Return a factory of a field's default, which is a new object each time, since it may be modified in place."""
    if default is None:
        return lambda _: None
    form = format_for(type_info)
    data = form.to_bytes(default)
    return lambda _: form.from_plain(unpack(data))


def _any_kind(type_info: TypeInformation, *kinds: TypeKind) -> bool:
    return type_info.kind in kinds or any(_any_kind(part, *kinds) for part in type_info.elements)


def _forget_type(old: TypeInformation) -> _Change:
    """Migrate typed to untyped values: the same objects, with self-describing bytes."""
    if _any_kind(old, TypeKind.PICKLED_BYTE_ARRAY):
        message = "pickled values are never converted"
        raise _IncompatibleError(message)
    return _Change(SchemaCompatibility.RECONFIGURED)


def _fit(new: TypeInformation) -> _Change:
    """Migrate untyped to typed values, provided that each value is of the type."""
    if _any_kind(new, TypeKind.PICKLED_BYTE_ARRAY):
        message = "pickled values are never converted"
        raise _IncompatibleError(message)
    form = format_for(new)
    has_floats = _any_kind(new, _FLOAT, _DOUBLE)

    def convert(value: Any) -> Any:
        fitted = _fitted(form, value)
        if has_floats and not _same_numbers(value, fitted):
            message = f"{form.shown(value)} has a number that {form.name} can't hold exactly."
            raise _MisfitError(message)
        return fitted

    return _Change(SchemaCompatibility.AFTER_MIGRATION, convert)


def _fitted(form: Format, value: Any) -> Any:
    try:
        return form.from_plain(form.to_plain(value))
    except StateError as error:
        raise _MisfitError(error.message) from error
    except (ValueError, OverflowError, struct.error) as error:
        message = f"{form.shown(value)} is not of type {form.name}: {error}."
        raise _MisfitError(message) from error


def _same_numbers(before: Any, after: Any) -> bool:
    """Return whether the floats in a converted value equal the original numbers."""
    if type(after) is float:
        return bool(before == after) or (before != before and after != after)
    if type(after) in (list, tuple):
        return all(map(_same_numbers, before, after))
    if type(after) is dict:
        return all(map(_same_numbers, before, after)) and all(map(_same_numbers, before.values(), after.values()))
    if is_row(after):
        names = before.field_names()
        by_name = names is not None and names != after.field_names()
        values = [before[name] for name in after.field_names() or ()] if by_name else before
        return all(map(_same_numbers, values, after))
    return True

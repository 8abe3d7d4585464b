"""The format of each type.

A `Format` turns a value into plain data that msgpack says exactly, checking it on the way, and back. Typed values carry no
type marks (the type stands once in the serializer snapshot), and what is none of its type becomes one, or is refused, by the
rules of `common/type_rules.py`. Untyped values use extension codes (`untyped_format.py`), and are never written as a
neighbour of what they are: a subclass, a set, a bytearray is an error, not a list or bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array
from pystate.core.state.formats.container_formats import ListFormat, MapFormat
from pystate.core.state.formats.row_formats import RowFormat, TupleFormat
from pystate.core.state.formats.scalar_formats import SCALARS
from pystate.core.state.formats.text_formats import Binary
from pystate.core.state.formats.type_format import Format
from pystate.core.state.formats.untyped_format import UNTYPED

if TYPE_CHECKING:
    import pyarrow as pa

_COMPOSITES: dict[TypeKind, type[RowFormat | TupleFormat | MapFormat]] = {
    TypeKind.TUPLE: TupleFormat,
    TypeKind.ROW: RowFormat,
    TypeKind.MAP: MapFormat,
}


def format_for(type_info: TypeInformation | None) -> Format:
    """Return the format of a type; None is the untyped value.

    Raises:
        StateError: A default of a row's field isn't of the field's type.
    """
    form = _made(type_info)
    _check_defaults(form)
    return form


@lru_cache(256)
def known_format(type_info: TypeInformation | None) -> Format:
    """Return the format of a type, whose defaults aren't looked at: for keys and columns, which have none."""
    return _made(type_info)


def key_format(type_info: TypeInformation) -> Format:
    """Return the format of a declared key type.

    Raises:
        StateError: The type can't be a key.
    """
    form = known_format(type_info)
    _check_key(form)
    return form


def is_immutable(type_info: TypeInformation) -> bool:
    """Return whether values of a type are immutable."""
    return known_format(type_info).immutable


def arrow_type_of(type_info: TypeInformation | None) -> pa.DataType:
    """Return the type of a column of elements of a type; untyped elements are pickled into bytes."""
    return known_format(type_info).arrow_type


def _made(type_info: TypeInformation | None) -> Format:
    if type_info is None:
        return UNTYPED
    scalar = SCALARS.get(type_info.kind)
    if scalar is not None:
        return scalar
    if is_byte_array(type_info):
        return Binary(type_info.name)
    return _COMPOSITES.get(type_info.kind, ListFormat)(type_info, [_made(part) for part in type_info.elements])


def _check_defaults(form: Format) -> None:
    for part in form.parts:
        _check_defaults(part)
    if isinstance(form, RowFormat):
        form.check_defaults()


def _check_key(form: Format) -> None:
    if form.tag is None:
        message = f"{form.name} can't be the type of a key."
        raise StateError(message, hint="use a basic type, TUPLE, LIST or ROW")
    for part in form.parts:
        _check_key(part)

"""The msgpack formats of all types.

A `Format` turns a value into plain data that msgpack says exactly, checking it on the way, and back. Typed values carry no
type marks (the type stands once in the serializer snapshot), and what is none of its type becomes one, or is refused, by the
rules of `common/type_rules.py`. Untyped values use the extension codes below, and are never written as a neighbour of what
they are: a subclass, a set, a bytearray is an error, not a list or bytes.
"""

from __future__ import annotations

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.state.values.composite_formats import composite_format
from pystate.core.state.values.scalar_formats import SCALARS, bytes_format
from pystate.core.state.values.untyped_format import UNTYPED
from pystate.core.state.values.value_format import Format


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

"""The Arrow types of columns."""

from __future__ import annotations

import pyarrow as pa

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array

_SCALARS: dict[TypeKind, pa.DataType] = {
    TypeKind.STRING: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.SQL_DATE: pa.date32(),
    TypeKind.SQL_TIMESTAMP: pa.timestamp("us"),
    TypeKind.BIG_INT: pa.string(),
    TypeKind.BIG_DEC: pa.string(),
    TypeKind.SQL_TIME: pa.string(),
    TypeKind.INSTANT: pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())]),
    TypeKind.PICKLED_BYTE_ARRAY: pa.binary(),
}


def arrow_type_of(type_info: TypeInformation | None) -> pa.DataType:
    """Return the type of a column of elements of a type; untyped elements are pickled into bytes."""
    if type_info is None or is_byte_array(type_info):
        return pa.binary()
    kind = type_info.kind
    if kind in _SCALARS:
        return _SCALARS[kind]
    parts = [arrow_type_of(part) for part in type_info.elements]
    if kind is TypeKind.ROW or kind is TypeKind.TUPLE:
        return pa.struct([pa.field(name, part) for name, part in zip(type_info.get_field_names(), parts, strict=True)])
    return pa.map_(*parts) if kind is TypeKind.MAP else pa.list_(*parts)

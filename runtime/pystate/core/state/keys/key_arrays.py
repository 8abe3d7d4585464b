"""Vectorized decoding of snapshot keys, which are a tag and a payload, to Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.state.columns.arrow_types import arrow_type_of
from pystate.core.state.columns.cells import Cells, NotInColumnsError, numbers_at, require, spread
from pystate.core.state.keys.key_encoding import TAG_BINARY, TAG_NULL
from pystate.core.state.keys.keys import type_tag
from pystate.core.state.values.serializers import INTEGER_RANGES

_DATES = (-719_162, 2_932_896)
"""Days since 1970 of the first and the last date there is."""

Read = Callable[[Cells], pa.Array]


def key_array(cells: Cells, key_type: TypeInformation) -> pa.Array:
    """Return keys as an Arrow array of their column's type; the key None is null.

    Args:
        cells: Tag and payload of each key.
        key_type: The declared type.

    Raises:
        NotInColumnsError: Only the codec can decode them.
    """
    read, tag = _payloads(key_type), type_tag(key_type)
    require(bool((cells.lengths > 0).all()))
    tags = cells.data[cells.starts]
    present = tags == tag
    if present.all():
        return read(cells.behind(1))
    require(bool((present | ((tags == TAG_NULL) & (cells.lengths == 1))).all()))
    return spread(read(cells.select(np.flatnonzero(present)).behind(1)), present)


def _payloads(key_type: TypeInformation) -> Read:
    if type_tag(key_type) == TAG_BINARY:
        return Cells.to_binary
    if key_type.kind in (TypeKind.ROW, TypeKind.TUPLE) or key_type.kind not in _READERS:
        if key_type.kind is TypeKind.TUPLE:
            return _tuple_reader(key_type)
        raise NotInColumnsError
    return _READERS[key_type.kind]


def _integers(low: int, high: int, width: str, arrow_type: pa.DataType) -> Read:
    size = np.dtype(width).itemsize

    def read(cells: Cells) -> pa.Array:
        require(bool((cells.lengths == size).all()))
        values = numbers_at(cells.data, cells.starts, width)
        require(not len(values) or (low <= int(values.min()) and int(values.max()) <= high))
        array = pa.array(values)
        return array.view(arrow_type) if pa.types.is_temporal(arrow_type) else array.cast(arrow_type)

    return read


def _floats(width: str, arrow_type: pa.DataType) -> Read:
    dtype = np.dtype(width)

    def read(cells: Cells) -> pa.Array:
        require(bool((cells.lengths == dtype.itemsize).all()))
        values = numbers_at(cells.data, cells.starts, width)
        # the codec compares a NaN or a signed zero with its canonical encoding
        require(bool((np.isfinite(values) | np.isinf(values)).all()) and not (np.signbit(values) & (values == 0)).any())
        return pa.array(values, arrow_type)

    return read


def _char(cells: Cells) -> pa.Array:
    texts = cells.to_text()
    require(pc.all(pc.equal(pc.utf8_length(texts), 1)).as_py() is not False)
    return texts


_READERS: dict[TypeKind, Read] = {
    TypeKind.STRING: Cells.to_text,
    TypeKind.CHAR: _char,
    TypeKind.BOOLEAN: _integers(0, 1, "<u4", pa.bool_()),
    TypeKind.BYTE: _integers(*INTEGER_RANGES[TypeKind.BYTE], "<i4", pa.int8()),
    TypeKind.SHORT: _integers(*INTEGER_RANGES[TypeKind.SHORT], "<i4", pa.int16()),
    TypeKind.INT: _integers(*INTEGER_RANGES[TypeKind.INT], "<i4", pa.int32()),
    TypeKind.LONG: _integers(*INTEGER_RANGES[TypeKind.LONG], "<i8", pa.int64()),
    TypeKind.FLOAT: _floats("<f4", pa.float32()),
    TypeKind.DOUBLE: _floats("<f8", pa.float64()),
    TypeKind.SQL_DATE: _integers(*_DATES, "<i4", pa.date32()),
}


def _tuple_reader(key_type: TypeInformation) -> Read:
    parts = [(type_tag(part), _payloads(part)) for part in key_type.elements]
    fields = list(arrow_type_of(key_type))

    def read(cells: Cells) -> pa.Array:
        at = cells.starts
        arrays = []
        for tag, read_part in parts:
            require(bool((at + 5 <= cells.ends).all()))
            tags, starts = cells.data[at], at + 5
            at = starts + numbers_at(cells.data, at + 1, "<u4")
            require(bool((at <= cells.ends).all()) and bool((tags == tag).all()))  # None needs the codec
            arrays.append(read_part(Cells(cells.data, starts, at)))
        require(bool((at == cells.ends).all()))
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return read

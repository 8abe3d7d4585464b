"""Values by columns: Arrow arrays, and the msgpack of a type's format, one column at a time.

Both ways give what `serializers` and the converters of columns (`records.codec`) give value by value; what isn't certain to
be the same raises `NotInColumnsError`, and is read or written by them.
"""

from __future__ import annotations

import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.core.state.columns import Cells
from pystate.core.state.formats.all_formats import known_format
from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn
from pystate.core.state.not_in_columns import require


def value_array(cells: Cells, type_info: TypeInformation, *, nullable: bool = False) -> pa.Array:
    """Return values as an Arrow array of their column's type.

    Args:
        cells: The bytes of each value.
        type_info: The type of the values.
        nullable: Whether nil means None.

    Raises:
        NotInColumnsError: Only the serializer can decode them.
    """
    form = known_format(type_info)
    require(form.in_columns)
    return PackedCells(cells.data, cells.starts, cells.ends).read_all(form.read_values, nullable=nullable)


def packed_values(array: pa.Array, type_info: TypeInformation, *, nullable: bool = False) -> pa.Array:
    """Return encoded values as an Arrow array.

    Args:
        array: The column.
        type_info: The type of the values.
        nullable: Whether there may be nulls, which are written as nil.

    Raises:
        NotInColumnsError: Only the serializer can write or reject them.
    """
    require(nullable or not array.null_count)
    return ValueColumn(array).nullable(known_format(type_info).write_values)

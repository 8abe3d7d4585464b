"""The supported types of file columns, and the types they are read as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.common.type_rules import LISTS, is_byte_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCALARS = frozenset(
    {
        TypeKind.STRING,
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
        TypeKind.SQL_DATE,
        TypeKind.SQL_TIMESTAMP,
    }
)


def check_columns(row_type: TypeInformation, kind_of_file: str) -> None:
    """Check that a row type can be read from files.

    Args:
        row_type: The row.
        kind_of_file: Such as "Parquet", for errors.

    Raises:
        JobGraphError: It isn't a named ROW, or has a type that such files don't support.
    """
    if not isinstance(row_type, TypeInformation) or row_type.kind is not TypeKind.ROW or row_type.names is None:
        message = f"The rows of a {kind_of_file} file are a named ROW, not {getattr(row_type, 'name', row_type)}."
        raise JobGraphError(message, hint="declare them with Types.ROW_NAMED([...], [...])")
    for part in row_type.elements:
        _check_column(part, kind_of_file)


def _check_column(type_info: TypeInformation, kind_of_file: str) -> None:
    kind = type_info.kind
    if kind is TypeKind.MAP and kind_of_file == "JSON" and not _is_scalar(type_info.elements[0]):
        message = f"A key of a map in a JSON file is a text, which is not read as {type_info.elements[0].name}."
        raise JobGraphError(message, hint="declare keys of texts, numbers, booleans, dates or bytes")
    if kind in (TypeKind.ROW, TypeKind.MAP, *LISTS):
        for part in type_info.elements:
            _check_column(part, kind_of_file)
    elif kind not in _SCALARS:
        message = f"A {kind_of_file} file is not read as {type_info.name}."
        hint = "leave row_type out: the columns then are what the files say" if kind_of_file == "Parquet" else None
        raise JobGraphError(message, hint=hint or "declare another type, such as Types.STRING(), and convert in map()")


def read_back(type_info: TypeInformation) -> TypeInformation:
    """Return the type that a column is read as, given a type that `check_columns` accepts."""
    kind = type_info.kind
    if kind is TypeKind.ROW:
        return Types.ROW_NAMED(type_info.get_field_names(), [read_back(part) for part in type_info.elements])
    if kind is TypeKind.MAP:
        return Types.MAP(*map(read_back, type_info.elements))
    if _is_scalar(type_info):
        return type_info
    return Types.LIST(read_back(type_info.elements[0]))


def _is_scalar(type_info: TypeInformation) -> bool:
    return type_info.kind in _SCALARS or is_byte_array(type_info)


def session_zone(spark: SparkSession | None) -> str:
    """Return the time zone of timestamps without one; UTC without a session."""
    return "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))

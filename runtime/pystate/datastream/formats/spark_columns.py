"""The columns of files as Spark declares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind, Types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_TYPES = {
    TypeKind.STRING: "STRING",
    TypeKind.BOOLEAN: "BOOLEAN",
    TypeKind.BYTE: "TINYINT",
    TypeKind.SHORT: "SMALLINT",
    TypeKind.INT: "INT",
    TypeKind.LONG: "BIGINT",
    TypeKind.FLOAT: "FLOAT",
    TypeKind.DOUBLE: "DOUBLE",
    TypeKind.SQL_DATE: "DATE",
    TypeKind.SQL_TIMESTAMP: "TIMESTAMP",
}


def columns_of(row_type: TypeInformation, kind_of_file: str, texts: Sequence[str] = ()) -> str:
    """Return the columns of a named ROW, as Spark's DDL.

    Args:
        row_type: The row.
        kind_of_file: Such as "Parquet", for errors.
        texts: Columns that are read as texts, whatever they are declared as.

    Raises:
        JobGraphError: It is no named ROW, or has a part that such files don't have.
    """
    if not isinstance(row_type, TypeInformation) or row_type.kind is not TypeKind.ROW or row_type.names is None:
        message = f"The rows of a {kind_of_file} file are a named ROW, not {getattr(row_type, 'name', row_type)}."
        raise JobGraphError(message, hint="declare them with Types.ROW_NAMED([...], [...])")
    return ", ".join(_fields(row_type, " ", kind_of_file, texts))


def read_back(type_info: TypeInformation) -> TypeInformation:
    """Return the type of what Spark gives for a column of a type that `spark_type` takes."""
    kind = type_info.kind
    if kind is TypeKind.ROW:
        return Types.ROW_NAMED(type_info.get_field_names(), [read_back(part) for part in type_info.elements])
    if kind is TypeKind.MAP:
        return Types.MAP(*map(read_back, type_info.elements))
    if kind in _SPARK_TYPES or (kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE):
        return type_info
    return Types.LIST(read_back(type_info.elements[0]))


def session_zone(spark: SparkSession | None) -> str:
    """Return the zone of timestamps that name none; UTC without a session."""
    return "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))


def _fields(row_type: TypeInformation, between: str, kind_of_file: str, texts: Sequence[str] = ()) -> list[str]:
    named = zip(row_type.get_field_names(), row_type.elements, strict=True)
    return [
        f"`{name.replace('`', '``')}`{between}{'STRING' if name in texts else spark_type(part, kind_of_file)}"
        for name, part in named
    ]


def spark_type(type_info: TypeInformation, kind_of_file: str) -> str:
    """Return Spark's name of a type.

    Raises:
        JobGraphError: Such files don't have it.
    """
    kind = type_info.kind
    if kind in _SPARK_TYPES:
        return _SPARK_TYPES[kind]
    if kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE:
        return "BINARY"
    if kind is TypeKind.ROW:
        return f"STRUCT<{', '.join(_fields(type_info, ': ', kind_of_file))}>"
    if kind is TypeKind.MAP:
        key, value = (spark_type(part, kind_of_file) for part in type_info.elements)
        return f"MAP<{key}, {value}>"
    if kind in (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY, TypeKind.PRIMITIVE_ARRAY):
        return f"ARRAY<{spark_type(type_info.elements[0], kind_of_file)}>"
    message = f"A {kind_of_file} file is not read as {type_info.name}."
    hint = "leave row_type out: the columns then are what the files say" if kind_of_file == "Parquet" else None
    raise JobGraphError(message, hint=hint or "declare another type, such as Types.STRING(), and convert in map()")

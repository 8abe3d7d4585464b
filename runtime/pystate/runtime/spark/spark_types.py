"""Conversion of Spark's column types."""

from __future__ import annotations

from pyspark.sql import types as spark

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, Types

_PLAIN: dict[type[spark.DataType], TypeInformation] = {
    spark.StringType: Types.STRING(),
    spark.VarcharType: Types.STRING(),
    spark.CharType: Types.STRING(),
    spark.BooleanType: Types.BOOLEAN(),
    spark.ByteType: Types.BYTE(),
    spark.ShortType: Types.SHORT(),
    spark.IntegerType: Types.INT(),
    spark.LongType: Types.LONG(),
    spark.FloatType: Types.FLOAT(),
    spark.DoubleType: Types.DOUBLE(),
    spark.DecimalType: Types.BIG_DEC(),
    spark.DateType: Types.SQL_DATE(),
    spark.TimestampType: Types.SQL_TIMESTAMP(),
    spark.TimestampNTZType: Types.SQL_TIMESTAMP(),
    spark.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def type_info_of(data_type: spark.DataType, where: str) -> TypeInformation:
    """Return the type of a Spark column.

    A TIMESTAMP (an instant) becomes a datetime in UTC without a zone.

    Raises:
        JobGraphError: pystate has no type for it.
    """
    plain = _PLAIN.get(type(data_type))
    if plain is not None:
        return plain
    if isinstance(data_type, spark.StructType):
        return Types.ROW_NAMED(data_type.names, [type_info_of(field.dataType, where) for field in data_type.fields])
    if isinstance(data_type, spark.ArrayType):
        return Types.LIST(type_info_of(data_type.elementType, where))
    if isinstance(data_type, spark.MapType):
        return Types.MAP(type_info_of(data_type.keyType, where), type_info_of(data_type.valueType, where))
    message = f"pystate has no type for Spark's {data_type.simpleString()}."
    raise JobGraphError(message, where=where, hint="cast the column in the DataFrame part of the job")

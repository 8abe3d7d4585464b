"""Values as Delta's log has them: of partitions, and the least and greatest of a file's columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.errors import RecordError

_TEXT_LENGTH = 32
"""The length of texts in statistics. A longer greatest one is left out, since a cut one would be less than what is there."""
_COLUMNS = 32
"""How many columns have statistics: Delta's default."""


def partition_text(value: Any) -> str | None:
    """Return the value of a partition's column.

    Raises:
        RecordError: There is no text for it.
    """
    if value is None or value == "":
        return None  # the log takes an empty text for null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, Decimal)):
        return str(value)
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.timezone.utc)
        return utc.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, dt.date):
        return value.isoformat()
    message = f"A Delta table can't be partitioned by {value!r}."
    raise RecordError(message, hint="partition by texts, numbers, dates and timestamps")


def partition_value(text: str | None, of: Any) -> pa.Scalar:
    """Return the value of a partition's column, of the type of Arrow, of its text in the log."""
    if text is None or text == "":
        return pa.scalar(None, of)
    if pa.types.is_binary(of) or pa.types.is_large_binary(of):
        return pa.scalar(text.encode(), of)
    if pa.types.is_timestamp(of):
        naive = pa.scalar(text.replace("T", " ").removesuffix("Z")).cast(pa.timestamp(of.unit))
        return naive if of.tz is None else naive.cast(of)
    return pa.scalar(text).cast(of)


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Return the statistics of a file, by which readers leave files out."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for field in list(rows.schema)[:_COLUMNS]:
        column = rows.column(field.name)
        if pa.types.is_nested(field.type):
            continue
        nulls[field.name] = column.null_count
        if not _is_ordered(field.type) or column.null_count == rows.num_rows:
            continue
        bounds = pc.min_max(column).as_py()
        if (low := _plain(bounds["min"])) is not None and (high := _plain(bounds["max"])) is not None:
            least[field.name], greatest[field.name] = low, high
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _is_ordered(of: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(of) or types.is_string(of) or types.is_date(of) or types.is_timestamp(of))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_LENGTH else None
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.timezone.utc)
        if utc.microsecond % 1000:
            return None  # Delta's statistics have milliseconds, by which a greatest one would be less than what is there
        return utc.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + ("Z" if value.tzinfo is not None else "")
    return value.isoformat() if isinstance(value, dt.date) else value

"""Reader and encoder of files with a JSON object on each line."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pystate.common.errors import RecordError
from pystate.common.row import Row
from pystate.common.serialization import Encoder
from pystate.common.type_info import TypeInformation
from pystate.connectors.file_system.formats.json_format import JsonFormat
from pystate.connectors.file_system.formats.split_format import SplitFormat
from pystate.core.records.codec import shown
from pystate.datastream.connectors.file_system import StreamFormat
from pystate.datastream.formats.spark_columns import check_columns, read_back, session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JsonLinesFormat(StreamFormat):
    """Reads rows from files of JSON lines; an invalid line fails the job.

    Args:
        row_type: A named ROW: the columns to read, by name; missing ones are null.

    Raises:
        JobGraphError: It isn't one, or has a type that JSON doesn't support.
    """

    def __init__(self, row_type: TypeInformation) -> None:
        check_columns(row_type, "JSON")
        self._row_type = row_type

    @staticmethod
    def for_row_type(row_type: TypeInformation) -> JsonLinesFormat:
        """Return the format for a row type."""
        return JsonLinesFormat(row_type)

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return the reader for slots."""
        del paths
        return JsonFormat(read_back(self._row_type), session_zone(spark))


class JsonLinesEncoder(Encoder):
    """Writes each element as a line of JSON: named rows and dicts as objects, tuples and lists as arrays.

    Times are strings in ISO 8601, bytes strings in Base64; decimals, NaN and infinities are strings, too. A key of a
    dict that isn't a string is written as its JSON.
    """

    def encode(self, element: Any) -> bytes:
        """Return the line.

        Raises:
            RecordError: JSON doesn't support a value.
        """
        try:
            return f"{_written(_plain(element))}\n".encode()
        except (TypeError, ValueError) as error:
            message = f"{shown(element)} can't be written as JSON: {error}"
            raise RecordError(message, hint="map() it to rows, dicts, lists, texts and numbers") from error


def _written(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Row):
        names = value.get_field_names()
        parts = [_plain(part) for part in value.values_list()]
        return parts if names is None else dict(zip(names, parts, strict=True))
    if isinstance(value, dict):
        return {_key(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    message = f"{type(value).__name__} has no form in JSON"
    raise TypeError(message)


def _key(value: Any) -> str:
    if value is None:
        message = "None is no key"
        raise TypeError(message)
    plain = _plain(value)
    return plain if isinstance(plain, str) else _written(plain)

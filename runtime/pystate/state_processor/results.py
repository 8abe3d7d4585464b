"""Results of Spark tasks that write state: the files of each subtask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa

from pystate.common.errors import PystateError, error_from_dict
from pystate.core.snapshot.handles.handles import StateHandle, handle_from_plain, handle_to_plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA = pa.schema([pa.field("subtask", pa.int32()), pa.field("handle", pa.binary()), pa.field("more", pa.binary())])
_OUR_ERROR = re.compile(r"^pystate\.common\.errors\.(\w+): (.*)(?:\n  at: (.*))?(?:\n  try: (.*))?$", re.MULTILINE)


def result_schema() -> Any:
    """Return the Spark schema of the results."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_SCHEMA)


def result_batch(subtask: int, handle: StateHandle, more: Any = None) -> pa.RecordBatch:
    """Return the result for one subtask, with other plain data."""
    data = [[subtask], [msgpack.packb(handle_to_plain(handle))], [msgpack.packb(more)]]
    arrays = [pa.array(column, field.type) for column, field in zip(data, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def collect(frame: DataFrame) -> dict[int, StateHandle]:
    """Run the tasks; return their handles by subtask."""
    return {subtask: handle for subtask, (handle, _) in collect_all(frame).items()}


def collect_all(frame: DataFrame) -> dict[int, tuple[StateHandle, Any]]:
    """Run the tasks; return their handles and other plain data by subtask.

    Raises:
        PystateError: The error of a task.
    """
    from pyspark.errors import PySparkException

    try:
        rows = frame.collect()
    except PySparkException as error:
        raised = _error_in(str(error))
        if raised is None:
            raise
        raise raised from error
    return {
        row.subtask: (handle_from_plain(msgpack.unpackb(bytes(row.handle))), msgpack.unpackb(bytes(row.more)))
        for row in rows
    }


def _error_in(text: str) -> PystateError | None:
    """Return the pystate error in a stack trace of a Python worker."""
    found = list(_OUR_ERROR.finditer(text))
    if not found:
        return None
    name, message, where, hint = found[-1].groups()
    return error_from_dict({"class": name, "message": message, "where": where, "hint": hint})

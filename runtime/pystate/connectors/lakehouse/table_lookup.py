"""Look-up joins with a table that is held in memory and read again when it has changed: `stream.map(TableLookup(...))`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.time import Duration
from pystate.connectors.arrow_rows import ArrowRows
from pystate.connectors.lakehouse.source_table import NOTHING
from pystate.connectors.lakehouse.table_columns import check_readable, read_as
from pystate.connectors.lakehouse.table_source import TableSource
from pystate.connectors.lakehouse.table_source_settings import StartKind
from pystate.core.api.functions import MapFunction, RuntimeContext
from pystate.core.records.codec import shown

_FIVE_MINUTES = Duration.of_minutes(5)


class TableLookup(MapFunction):
    """Looks up rows for each element in a table, which each subtask holds whole: Flink's `lookup.cache = FULL`.

    A look-up returns the rows of a version of the table that was the newest one at most an interval ago: after a failure
    they may differ. Reading it again holds up the elements of the subtask.

    Args:
        source: The table and the columns: a bounded source of the table as it is.
        keys: The columns that are looked up.
        parameters: Makes their values from an element: `lambda order: (order.product,)`.
        merge: Makes the result from an element and the rows found.
        reload_interval: How often to look whether the table has another version, which is read then.
        clock: Returns seconds.

    Raises:
        JobGraphError: The source isn't that, or the table hasn't these columns.
    """

    def __init__(
        self,
        source: TableSource,
        keys: Sequence[str],
        parameters: Callable[[Any], Sequence[Any]],
        merge: Callable[[Any, list[Row]], Any],
        *,
        reload_interval: Duration = _FIVE_MINUTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(source, TableSource) or source.settings.follows or source.settings.start is not StartKind.SCAN:
            message = "A table is looked up by a bounded source of the table as it is."
            raise JobGraphError(message, hint="DeltaSource.for_bounded_row_data(...), IcebergSource.for_table(...)")
        lacking = [key for key in keys if key not in source.produced_type.row_names]
        if lacking or not keys:
            message = f"The rows of {source!r} have no {', '.join(lacking) or 'key'} to look up."
            raise JobGraphError(message, hint=f"there are {', '.join(source.produced_type.row_names)}")
        self._source = source
        self._keys = tuple(keys)
        self._parameters = parameters
        self._merge = merge
        self._interval_s = reload_interval.to_millis() / 1000
        self._clock = clock
        self._version: tuple[str, int] | None = None
        self._rows: dict[tuple[Any, ...], list[Row]] = {}
        self._look_at = 0.0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Read the table."""
        self._reloads = runtime_context.get_metrics_group().counter("lookupReloads")
        self._look()

    def map(self, value: Any) -> Any:
        """Return the element merged with the rows found; a None in the key is equal to nothing.

        Raises:
            RecordError: The key hasn't a value for each column.
        """
        if self._clock() >= self._look_at:
            self._look()
        found = self._parameters(value)
        key = tuple(found) if isinstance(found, Iterable) and not isinstance(found, (str, bytes)) else None
        if key is None or len(key) != len(self._keys):
            message = (
                f"The parameters are {shown(found)}, and the key is {', '.join(self._keys)}: a value for each is needed."
            )
            raise RecordError(message, where=repr(self._source), hint="return a tuple, (value,) for a key of one column")
        return self._merge(value, [] if None in key else list(self._rows.get(key, ())))

    def _look(self) -> None:
        self._look_at = self._clock() + self._interval_s
        table = self._source.open_table()
        version = (table.identity, table.newest)
        if version == self._version:
            return
        arrow = ArrowRows(self._source.produced_type, "a table")
        check_readable(arrow.schema, table.schema, table.name)
        places = [arrow.schema.names.index(key) for key in self._keys]
        rows: dict[tuple[Any, ...], list[Row]] = {}
        for file in table.files(table.newest) if table.newest != NOTHING else ():
            for batch in table.batches(file, arrow.schema.names, 0):
                for row in arrow.elements(read_as(batch, arrow.schema, str(file["path"]))):
                    key = tuple(row[place] for place in places)
                    if None not in key:
                        rows.setdefault(key, []).append(row)
        self._rows, self._version = rows, version
        self._reloads.inc()

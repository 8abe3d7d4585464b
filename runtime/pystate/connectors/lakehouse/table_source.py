"""What the sources of tables share: the enumerator and readers that they make, and their builders."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.time import Duration, Instant
from pystate.common.type_info import TypeInformation
from pystate.connectors.arrow_rows import ArrowRows
from pystate.connectors.lakehouse.source_table import ChangeKind, SourceTable
from pystate.connectors.lakehouse.table_columns import check_readable
from pystate.connectors.lakehouse.table_enumerator import TableEnumerator, columns_to_read
from pystate.connectors.lakehouse.table_reader import TableReader
from pystate.connectors.lakehouse.table_source_settings import StartKind, TableSourceSettings
from pystate.connectors.lakehouse.table_split import TableSplit
from pystate.connectors.source import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    StartsAt,
)

B = TypeVar("B", bound="TableSourceBuilder")


class TableSource(Source[Any, TableSplit]):
    """A source of a table of data files, as it is, or version by version.

    Args:
        settings: How it is read.
    """

    def __init__(self, settings: TableSourceSettings) -> None:
        if settings.row_type is None:
            message = f"{type(self).__name__} doesn't know which columns to read."
            raise JobGraphError(message, hint="with_row_type(Types.ROW_NAMED([...], [...]))")
        self.settings = settings
        self.produced_type: TypeInformation = settings.row_type

    @property
    @override
    def starts_at(self) -> StartsAt:
        return StartsAt.THE_END if self.settings.start is StartKind.LATEST else StartsAt.THE_BEGINNING

    @property
    @override
    def scarce_splits(self) -> str | None:
        return "files" if self.settings.follows else None

    @override
    def check_start(self) -> None:
        table = self.open_table()
        check_readable(self._rows().schema, columns_to_read(table, self.settings), table.name)

    @override
    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.settings.follows else Boundedness.BOUNDED

    @override
    def create_enumerator(self, context: SplitEnumeratorContext[TableSplit]) -> TableEnumerator:
        return TableEnumerator(context, self.open_table, self.settings, self._rows().schema)

    @override
    def restore_enumerator(self, context: SplitEnumeratorContext[TableSplit], checkpoint: Any) -> TableEnumerator:
        return TableEnumerator(context, self.open_table, self.settings, self._rows().schema, checkpoint)

    @override
    def create_reader(self, context: SourceReaderContext) -> TableReader:
        return TableReader(context, self.open_table, self.settings, self._rows())

    @override
    def restore_split(self, plain: Any) -> TableSplit:
        return TableSplit.of(plain)

    def _rows(self) -> ArrowRows:
        return ArrowRows(self.produced_type, "a table")

    @abstractmethod
    def open_table(self) -> SourceTable:
        """Return the table as it is now.

        Raises:
            ConfigurationError: There is none, or it has what can't be read.
        """


class TableSourceBuilder:
    """The base of the builders.

    Args:
        settings: Those to begin with.
    """

    def __init__(self, settings: TableSourceSettings) -> None:
        self._settings = settings

    def with_row_type(self: B, row_type: TypeInformation) -> B:
        """Set the columns to read, by their names: a named ROW. A type may be wider than the table's."""
        ArrowRows(row_type, "a table")
        return self._set(row_type=row_type)

    def _starting(self: B, start: StartKind, **values: Any) -> B:
        """Set where to begin.

        Raises:
            JobGraphError: That was said already.
        """
        if self._settings.start is not StartKind.SCAN:
            message = f"The source was told already where to begin: {self._settings.start.value}."
            raise JobGraphError(message, hint="say one version, one time or one strategy")
        return self._set(start=start, **values)

    def _starting_at(self: B, timestamp: Instant) -> B:
        if not isinstance(timestamp, Instant):
            message = f"A time to begin at is an Instant, not {timestamp!r}."
            hint = "Instant.of_epoch_milli(int(moment.timestamp() * 1000)) of a datetime with a time zone"
            raise JobGraphError(message, hint=hint)
        return self._starting(StartKind.TIMESTAMP, timestamp_ms=timestamp.to_epoch_milli())

    def _every(self: B, interval: Duration) -> B:
        if interval.to_millis() <= 0:
            message = "New versions are looked for at an interval above 0."
            raise JobGraphError(message, hint="Duration.of_seconds(5)")
        return self._set(interval_ms=interval.to_millis())

    def _skip(self: B, *kinds: ChangeKind) -> B:
        return self._set(skips=self._settings.skips | set(kinds))

    def _set(self: B, **values: Any) -> B:
        self._settings = dataclasses.replace(self._settings, **values)
        return self

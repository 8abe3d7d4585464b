"""What the sinks to tables share: their settings, their builder, and the writer and committer that these make."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from pystate.common.errors import JobGraphError, PystateError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.connectors.arrow_rows import ArrowRows
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.lakehouse.staging_table import StagingTable
from pystate.connectors.lakehouse.table_committer import TableCommitter
from pystate.connectors.lakehouse.table_upserts import Upserts
from pystate.connectors.lakehouse.table_writer import TableWriter, check_columns
from pystate.connectors.sink import CommitterInitContext, Sink, SupportsCommitter, WriterInitContext
from pystate.connectors.typed_sink import SupportsElementType

S = TypeVar("S", bound="TableSink")
B = TypeVar("B", bound="TableSinkBuilder")


@dataclass(frozen=True)
class TableSinkSettings:
    """How rows are written.

    Attributes:
        row_type: Their columns; None for those of the stream.
        partition_by: The columns that the table is partitioned by, if it is made; checked if it is there; None for any.
        sort_by: The columns by which the rows of a file are sorted.
        most_rows: How many rows a file has at most.
        most_bytes: How large they are at most, in memory.
        evolve: Whether columns are added to the table that the rows have and the table doesn't.
        properties: The properties of a table that is made.
        upserts: By what rows replace others; None for rows that are appended.
        overwrites: Whether all rows of a job replace the partitions they belong to.
    """

    row_type: TypeInformation | None = None
    partition_by: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] = ()
    most_rows: int = 1_000_000
    most_bytes: int = 128 << 20
    evolve: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    upserts: Upserts | None = None
    overwrites: bool = False


class TableSink(Sink[Any], SupportsCommitter[dict[str, Any]], SupportsElementType, SupportsEarlyCheck):
    """A sink to a table of data files: exactly-once, with one commit for each checkpoint.

    Args:
        settings: How rows are written.

    Raises:
        JobGraphError: Rows that replace others are to be sorted.
    """

    def __init__(self, settings: TableSinkSettings) -> None:
        self.settings = settings
        if settings.upserts is not None and settings.sort_by:
            message = "Rows that replace others aren't sorted: the library writes the files anew that hold them."
            raise JobGraphError(message, hint="leave with_sort_by() out")
        if settings.upserts is not None and settings.overwrites:
            message = "Rows replace others by their keys, or the partitions they belong to, not both."
            raise JobGraphError(message, hint="leave with_upsert_by() or with_overwrite() out")

    @property
    def guarantee_reason(self) -> str:
        """Why each row is in the table once."""
        return "one commit of the table when a checkpoint completes, with a marker that recognises it"

    @override
    def for_elements_of(self: S, type_info: TypeInformation | None) -> S:
        if self.settings.row_type is not None:
            return self
        if type_info is None:
            message = f"{type(self).__name__} needs to know the columns of its rows, and the stream has no type."
            hint = "with_row_type(Types.ROW_NAMED([...], [...])), or declare the output_type of the step before it"
            raise JobGraphError(message, hint=hint)
        ArrowRows(type_info, "a table")
        return self._with(dataclasses.replace(self.settings, row_type=type_info))

    @override
    def create_writer(self, context: WriterInitContext) -> TableWriter:
        return TableWriter(*self.of_writer(context))

    def of_writer(self, context: WriterInitContext) -> tuple[Any, ...]:
        """Return what a writer is made of."""
        of = self.settings
        if of.row_type is None:
            message = f"{type(self).__name__} doesn't know the columns of its rows."
            raise JobGraphError(message, hint="with_row_type(Types.ROW_NAMED([...], [...]))")
        rows = ArrowRows(of.row_type, "a table")
        return self._make_or_check, rows, of.most_rows, of.most_bytes, of.sort_by, context, of.upserts

    @override
    def create_committer(self, context: CommitterInitContext) -> TableCommitter:
        return TableCommitter(self._open)

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        of = self.settings
        yield from self._client_findings()
        if of.row_type is None:
            return
        rows = ArrowRows(of.row_type, "a table").schema
        try:
            check_columns(rows, of.sort_by, of.upserts, repr(self))
        except PystateError as error:
            yield EarlyFinding(error)
        unknown = [column for column in self._partition_columns() if column not in rows.names]
        if unknown:
            message = f"The rows have no {', '.join(unknown)} to partition the table by."
            told = JobGraphError(message, hint=f"there are {', '.join(rows.names)}")
            yield EarlyFinding(told, fails=False)  # a table that is there may have it, and take rows without

    @abstractmethod
    def _client_findings(self) -> Iterator[EarlyFinding]:
        """Yield that the library of the table format isn't there, if so; it isn't loaded."""

    def _partition_columns(self) -> list[str]:
        """Return the columns of the rows that the table is to be partitioned by."""
        return list(self.settings.partition_by or ())

    @abstractmethod
    def _with(self: S, settings: TableSinkSettings) -> S:
        """Return the sink with other settings."""

    @abstractmethod
    def _make_or_check(self, rows: pa.Schema) -> StagingTable:
        """Return the table, which is made if it isn't there.

        Args:
            rows: The columns of what is to be written.

        Raises:
            ConfigurationError: They don't fit in.
        """

    @abstractmethod
    def _open(self) -> StagingTable:
        """Return the table as it is now."""


class TableSinkBuilder:
    """The base of the builders."""

    def __init__(self) -> None:
        self._settings = TableSinkSettings()

    def with_row_type(self: B, row_type: TypeInformation) -> B:
        """Set the columns: a named ROW. Without it they are those of the stream's type."""
        ArrowRows(row_type, "a table")
        return self._set(row_type=row_type)

    def with_partition_by(self: B, *columns: str) -> B:
        """Set what a new table is partitioned by; a table that is there has to have the same.

        Args:
            columns: Columns; with Iceberg also `day(column)`, `bucket(16, column)` and the like.
        """
        return self._set(partition_by=columns)

    def with_sort_by(self: B, *columns: str) -> B:
        """Set the columns by which the rows of each file are sorted, ascending."""
        return self._set(sort_by=columns)

    def with_upsert_by(self: B, *columns: str) -> B:
        """Have each row replace the one with the same values of these columns: the files that hold such a row are rewritten.

        Rows of the kind DELETE delete it. The stream is keyed by these columns, so that rows of a key stay in order.
        """
        if not columns:
            message = "with_upsert_by() takes the columns by which rows replace others."
            raise JobGraphError(message, hint='with_upsert_by("id")')
        before = self._settings.upserts
        return self._set(upserts=Upserts(columns, None if before is None else before.delete_when))

    def with_delete_when(self: B, predicate: Callable[[Any], bool]) -> B:
        """Set which elements delete the row of their key, besides those of the kind DELETE."""
        if self._settings.upserts is None:
            message = "Rows can be deleted by their key only."
            raise JobGraphError(message, hint='with_upsert_by("id").with_delete_when(...)')
        return self._set(upserts=Upserts(self._settings.upserts.keys, predicate))

    def with_overwrite(self: B) -> B:
        """Have all rows of a job replace the partitions they belong to, by one commit at the end of its input.

        This is `INSERT OVERWRITE` with dynamic partitions: others stay as they are. A table without partitions is replaced
        as a whole, where there are rows. A job without an end never gets there.
        """
        return self._set(overwrites=True)

    def with_max_rows_per_file(self: B, rows: int) -> B:
        """Set how many rows a file has at most; a checkpoint ends it in any case."""
        return self._set(most_rows=_positive("with_max_rows_per_file", rows))

    def with_max_file_size(self: B, size: int) -> B:
        """Set how large the rows of a file are at most, in bytes in memory: the file is a third or less of that."""
        return self._set(most_bytes=_positive("with_max_file_size", size))

    def with_schema_evolution(self: B) -> B:
        """Have columns added to the table that the rows have and the table doesn't."""
        return self._set(evolve=True)

    def with_table_properties(self: B, properties: Mapping[str, str]) -> B:
        """Set the properties of the table, if it is made."""
        return self._set(properties=dict(properties))

    def _set(self: B, **values: Any) -> B:
        self._settings = dataclasses.replace(self._settings, **values)
        return self


def _positive(method: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        message = f"{method}() takes a number above 0, not {value!r}."
        raise JobGraphError(message)
    return value

"""The columns of a stream's rows beside those of a table: which fit, which are added, and the cast from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from pystate.common.errors import ConfigurationError, RecordError
from pystate.connectors.lakehouse.column_types import is_list, widens
from pystate.connectors.lakehouse.staging_table import StagingTable

T = TypeVar("T", bound=StagingTable)

_TRIES = 10
"""How often columns are added where others change the table at the same time."""


def missing_columns(rows: pa.Schema, table: pa.Schema, where: str, *, evolve: bool, widen: bool = False) -> list[pa.Field]:
    """Check that rows can be written to a table; return the columns to add or widen first.

    Args:
        rows: The columns of the rows.
        table: Those of the table.
        where: The table, for messages.
        evolve: Whether columns may be added.
        widen: Whether columns may get a wider type.

    Raises:
        ConfigurationError: They can't be written.
    """
    added: list[pa.Field] = []
    widened: list[pa.Field] = []
    for field in rows:
        if field.name not in table.names:
            added.append(field)
        elif not widens(field.type, table.field(field.name).type):
            there = table.field(field.name).type
            if widen and widens(there, field.type):
                widened.append(field)
                continue
            message = (
                f"The column {field.name} of the table is {there}, and the stream has {field.type}, which doesn't fit in."
            )
            raise ConfigurationError(message, where=where, hint="convert it in map(), or declare the row_type of the table")
    needed = [field.name for field in table if not field.nullable and field.name not in rows.names]
    if needed:
        message = f"The table needs values for {', '.join(needed)}, which the rows of the stream don't have."
        raise ConfigurationError(message, where=where, hint="add the columns in map(), or make them nullable in the table")
    if added and not evolve:
        names = ", ".join(f"{field.name} ({field.type})" for field in added)
        message = f"The table has no column for {names}."
        raise ConfigurationError(
            message, where=where, hint="with_schema_evolution() adds columns, or leave them out in map()"
        )
    return added + widened


def with_columns(
    table: T,
    rows: pa.Schema,
    reopen: Callable[[], T],
    add: Callable[[T, pa.Schema], None],
    refusals: type[Exception] | tuple[type[Exception], ...],
    *,
    evolve: bool,
    widen: bool = False,
) -> T:
    """Return a table that has the columns of rows, which are added where it may be.

    Args:
        table: The table.
        rows: The columns of the rows.
        reopen: Opens the table as it is now.
        add: Adds columns, or widens them.
        refusals: What `add` raises where another subtask or job may have been first: the table is looked at again.
        evolve: Whether columns may be added.
        widen: Whether columns may get a wider type.

    Raises:
        ConfigurationError: The rows don't fit in.
    """
    refused: Exception | None = None
    for _ in range(_TRIES):
        changed = missing_columns(rows, table.schema, table.name, evolve=evolve, widen=widen)
        if not changed:
            return table
        try:
            add(table, pa.schema([field.with_nullable(True) for field in changed]))
        except refusals as error:
            refused = error
        table = reopen()
    message = f"Columns can't be added to the table: {refused}"
    raise ConfigurationError(message, where=table.name, hint="add them by hand") from refused


def check_partition_columns(columns: pa.Schema, names: Sequence[str], where: str) -> None:
    """Check that values of columns tell partitions apart.

    Raises:
        ConfigurationError: One holds fractions: NaN is equal to nothing, and 0.0 to -0.0.
    """
    for name in names:
        if name in columns.names and pa.types.is_floating(columns.field(name).type):
            message = f"The column {name} is {columns.field(name).type}: a table can't be partitioned by fractions."
            raise ConfigurationError(message, where=where, hint="partition by a text or a whole number, made in map()")


def fit(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return rows with the columns of a table, in its order; those that the stream lacks are null.

    Raises:
        RecordError: A value doesn't fit in, or is null where the table has none.
    """
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(field.name)
        if column.null_count and not field.nullable:
            message = f"A row has no {field.name}, which the table needs."
            raise RecordError(message, where=where, hint="filter such rows, or give the column a value in map()")
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            message = f"A value of the column {field.name} is no {field.type}: {error}"
            raise RecordError(message, where=where, hint="convert it in map()") from error
    return pa.Table.from_arrays(columns, schema=schema)


def check_readable(rows: pa.Schema, table: pa.Schema, where: str) -> None:
    """Check that the columns of rows can be read from a table.

    Raises:
        ConfigurationError: It has no such column, or one of another type.
    """
    lacking = [name for name in rows.names if name not in table.names]
    if lacking:
        message = f"The table has no column {', '.join(lacking)}."
        raise ConfigurationError(message, where=where, hint=f"there are {', '.join(table.names)}")
    for field in rows:
        there = table.field(field.name).type
        if not _reads(there, field.type):
            message = f"The column {field.name} of the table is {there}, which isn't read as {field.type}."
            raise ConfigurationError(message, where=where, hint="declare the type that the table has, and convert in map()")


def _reads(there: Any, wanted: Any) -> bool:
    types = pa.types
    if types.is_timestamp(there) and types.is_timestamp(wanted):
        return True  # without a zone it is one of UTC
    if types.is_struct(there) and types.is_struct(wanted):
        names = [one.name for one in there]
        return all(one.name in names and _reads(there.field(one.name).type, one.type) for one in wanted)
    if is_list(there) and is_list(wanted):
        return _reads(there.value_type, wanted.value_type)
    if types.is_map(there) and types.is_map(wanted):
        return _reads(there.key_type, wanted.key_type) and _reads(there.item_type, wanted.item_type)
    if types.is_fixed_size_binary(there) or _is_uuid(there):
        return bool(types.is_binary(wanted))
    return widens(there, wanted)


def _is_uuid(of: Any) -> bool:
    return isinstance(of, pa.BaseExtensionType) and of.extension_name == "arrow.uuid"


def read_as(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """Return a batch of a table with the columns of a stream; those that the batch lacks are null.

    Raises:
        RecordError: A value doesn't fit in.
    """
    columns = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(field.name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if _is_uuid(column.type):
            column = column.storage
        if column.type != field.type and not pa.types.is_decimal(column.type):  # a decimal keeps its scale
            try:
                # nanoseconds are cut to microseconds
                column = column.cast(field.type, safe=not pa.types.is_timestamp(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                message = f"The column {field.name} is {column.type}, which isn't read as {field.type}: {error}"
                hint = "declare the type that the table has, and convert in map()"
                raise RecordError(message, where=where, hint=hint) from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=schema.names)

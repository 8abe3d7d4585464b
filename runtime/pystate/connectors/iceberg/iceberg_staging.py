"""An Iceberg table as writers and committers see it: data files beside the metadata, and snapshots with a marker."""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pystate.common.errors import CommitError, ConfigurationError, JobGraphError, RecordError
from pystate.common.overrides import override
from pystate.connectors.iceberg.iceberg_catalog import IcebergCatalog
from pystate.connectors.iceberg.iceberg_data_file import from_plain, to_plain
from pystate.connectors.lakehouse.column_types import CHANGED_HINT
from pystate.connectors.lakehouse.staging_table import CommitConflictError, DataFile, StagingTable, overwrites
from pystate.connectors.lakehouse.table_columns import check_partition_columns, fit, with_columns
from pystate.connectors.lakehouse.table_upserts import DELETED

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile as IcebergDataFile
    from pyiceberg.table import Table, Transaction

LISTS = "pystate"
"""The folder of lists of staged files, beside `data` and `metadata`."""
MARKER = "pystate."
"""What keys of markers begin with, in snapshots' summaries and in the table's properties, which outlive snapshots."""
_NO_RETRIES = {"commit.retry.num-retries": "0"}
_TRANSFORM = re.compile(r"(\w+)\s*\((?:\s*(\d+)\s*,)?\s*([^()]+?)\s*\)")


class IcebergStaging(StagingTable):
    """An Iceberg table at its current snapshot.

    Args:
        catalog: Its catalog.
        identifier: Its name there.

    Raises:
        NoSuchTableError: There is none.
    """

    def __init__(self, catalog: IcebergCatalog, identifier: str) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        self.name = identifier
        self.table: Table = catalog.load_table(identifier)
        self.identity = str(self.table.metadata.table_uuid)
        self.schema = schema_to_pyarrow(self.table.schema(), include_field_ids=False)

    @override
    def stage(self, rows: pa.Table, stem: str) -> list[DataFile]:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        check_nulls(rows, self.name)
        files = _dataframe_to_data_files(self.table.metadata, rows, self.table.io, uuid.uuid4())
        of, spec = self.table.schema().schema_id, self.table.metadata.default_spec_id
        return [{**to_plain(file, spec), "schema": of} for file in files]

    @override
    def stage_upserts(self, rows: pa.Table, stem: str, keys: Sequence[str]) -> list[DataFile]:
        check_nulls(rows, self.name)
        return super().stage_upserts(rows, stem, keys)

    @override
    def committed(self, owner: str) -> int:
        key = f"{MARKER}{owner}"
        found = [self.table.properties.get(key)]
        found += [
            one.summary[key] for one in self.table.metadata.snapshots if one.summary is not None and key in one.summary
        ]
        return max((int(one) for one in found if one is not None), default=-1)

    @override
    def check_staged(self, files: Sequence[DataFile]) -> None:
        now = self.table.schema().schema_id
        for one in files:
            if "upserts" not in one and one.get("schema") != now:
                self._check_columns(one)

    def _check_columns(self, file: DataFile) -> None:
        """Check the columns of a file by their ids: the table has others than when it was staged.

        Raises:
            CommitError: One is gone, or its values aren't those of the type that it has now.
        """
        from pyiceberg.exceptions import ResolveError
        from pyiceberg.io.pyarrow import pyarrow_to_schema
        from pyiceberg.schema import index_by_id, promote

        with self.table.io.new_input(file["path"]).open() as stream:
            staged = pyarrow_to_schema(pq.read_schema(stream))
        schema = self.table.schema()
        there, now = index_by_id(staged), index_by_id(schema)
        is_moved = file["spec"] != self.table.metadata.default_spec_id  # rows are staged anew, by their names
        for place, field in there.items():
            name, current = staged.find_column_name(place), now.get(place)
            if current is None or (is_moved and schema.find_column_name(place) != name):
                message = f"The column {name} of the table is gone now; rows were staged with it."
                raise CommitError(message, where=self.name, hint=CHANGED_HINT)
            try:
                is_nested = not (field.field_type.is_primitive or current.field_type.is_primitive)
                if not is_nested and field.field_type != current.field_type:
                    promote(field.field_type, current.field_type)
            except ResolveError as error:
                message = (
                    f"The column {name} of the table is {current.field_type} now; rows were staged for {field.field_type}."
                )
                raise CommitError(message, where=self.name, hint=CHANGED_HINT) from error
        for place, current in now.items():
            may_be_null = place not in there or (not there[place].required and file["null_value_counts"].get(place) != 0)
            if current.required and may_be_null:
                message = f"The table needs values for {schema.find_column_name(place)} now, which staged rows don't have."
                raise CommitError(message, where=self.name, hint=CHANGED_HINT)

    @override
    def commit(self, files: Sequence[DataFile], owner: str, serial: int) -> None:
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
        from pyiceberg.table.update import AssertCurrentSchemaId

        marker = {f"{MARKER}{owner}": str(serial)}
        upserts = self.upserts_of(files)
        added = [from_plain(one) for one in self._as_partitioned_now([] if upserts is not None else files)]
        # pyiceberg would try a conflict again by itself, and add the files a second time after a commit of the same marker.
        # It takes the number from the metadata in hand; the table's own stays as it is, for other writers
        metadata = self.table.metadata
        self.table.metadata = metadata.model_copy(update={"properties": {**metadata.properties, **_NO_RETRIES}})
        try:
            with self.table.transaction() as transaction:
                unchanged = AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id})
                transaction._apply((), (unchanged,))  # noqa: SLF001 - of another one the files have to be looked at
                transaction.set_properties(dict(marker))
                if upserts is not None:
                    _replace(transaction, *upserts, marker)
                if overwrites(files):
                    old = self._in_partitions_of(added)
                    with transaction.update_snapshot(snapshot_properties=marker).overwrite() as overwrite:
                        for one in old:
                            overwrite.delete_data_file(one)
                        for one in added:
                            overwrite.append_data_file(one)
                elif added:
                    with transaction.update_snapshot(snapshot_properties=marker).fast_append() as append:
                        for one in added:
                            append.append_data_file(one)
        except (CommitFailedException, CommitStateUnknownException) as error:
            raise CommitConflictError(str(error)) from error

    @override
    def missing(self, files: Sequence[DataFile]) -> str | None:
        paths = [str(one["path"]) for one in files]
        return next((path for path in paths if not self.table.io.new_input(path).exists()), None)

    @override
    def remove(self, files: Sequence[DataFile]) -> None:
        self.delete([str(one["path"]) for one in files])

    @override
    def put(self, name: str, content: bytes) -> None:
        with self.table.io.new_output(self.place(name)).create(overwrite=True) as stream:
            stream.write(content)

    @override
    def place(self, name: str) -> str:
        return f"{self.table.location().rstrip('/')}/{LISTS}/{name}"

    @override
    def get(self, name: str) -> bytes | None:
        try:
            with self.table.io.new_input(self.place(name)).open() as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    @override
    def drop(self, names: Sequence[str]) -> None:
        self.delete([self.place(name) for name in names])

    def _in_partitions_of(self, files: Sequence[IcebergDataFile]) -> list[IcebergDataFile]:
        """Return the data files of the table that are in the partitions of these.

        Raises:
            CommitError: Some are of an older partition spec, which doesn't tell.
        """
        there, spec = [task.file for task in self.table.scan().plan_files()], self.table.metadata.default_spec_id
        if any(one.spec_id != spec for one in there):
            message = (
                "The table has files that are partitioned in another way than it is now: their rows may be in any partition."
            )
            hint = "rewrite them, as Spark's rewrite_data_files does, and resume"
            raise CommitError(message, where=self.name, hint=hint)
        partitions = [to_plain(one, spec)["partition"] for one in files]
        return [one for one in there if to_plain(one, spec)["partition"] in partitions]

    def _as_partitioned_now(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Return the files; the rows of those that were staged with an older partition spec are staged again."""
        now = self.table.metadata.default_spec_id
        fitting = [one for one in files if one["spec"] == now]
        for old in (one for one in files if one["spec"] != now):
            with self.table.io.new_input(old["path"]).open() as stream:
                rows = pq.read_table(stream)
            fitting += self.stage(fit(rows, self.schema, self.name), "")
        return fitting

    def delete(self, places: Sequence[str]) -> None:
        """Delete files, as far as they are there."""
        for place in places:
            try:
                self.table.io.delete(place)
            except FileNotFoundError:
                continue


def _replace(transaction: Transaction, rows: pa.Table, keys: Sequence[str], marker: dict[str, str]) -> None:
    """Have rows replace those of their keys; pyiceberg rewrites the files that hold these."""
    from pyiceberg.table.upsert_util import create_match_filter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no row has one of the keys
        transaction.delete(create_match_filter(rows, list(keys)), snapshot_properties=marker)
    kept = rows.filter(pc.invert(rows.column(DELETED))).drop_columns([DELETED])
    if kept.num_rows:
        transaction.append(kept, snapshot_properties=marker)


def check_nulls(rows: pa.Table, where: str) -> None:
    """Check that no list or map of rows is null: pyiceberg 0.12 writes an empty one in its place.

    Raises:
        RecordError: One is.
    """
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if any(map(_has_null_of_rows, column.chunks)):
            message = f"A list or map of rows in the column {name} is null, which the table would have as an empty one."
            raise RecordError(message, where=where, hint="make it an empty one in map()")


def _has_null_of_rows(array: pa.Array) -> bool:
    types = pa.types
    if types.is_struct(array.type):
        return any(_has_null_of_rows(array.field(at)) for at in range(array.type.num_fields))
    if types.is_map(array.type):
        inner = array.items
    elif types.is_list(array.type) or types.is_large_list(array.type):
        inner = array.flatten()
    else:
        return False
    return bool(types.is_struct(inner.type) and array.null_count) or _has_null_of_rows(inner)


def make_or_check(
    catalog: IcebergCatalog,
    identifier: str,
    rows: pa.Schema,
    *,
    partition_by: Sequence[str] | None,
    evolve: bool,
    properties: Mapping[str, str],
) -> IcebergStaging:
    """Return a table that rows can be written to, and make it where there is none.

    Args:
        catalog: Its catalog.
        identifier: Its name there.
        rows: The columns of the rows.
        partition_by: What it is partitioned by: columns, or `day(column)` and the like; None for any.
        evolve: Whether columns may be added and widened.
        properties: Those of a new table.

    Raises:
        ConfigurationError: They can't be written.
    """
    check_partition_columns(rows, [parsed_transform(one)[0] for one in partition_by or ()], identifier)
    found = catalog.open()
    from pyiceberg.exceptions import (
        BadRequestError,
        CommitFailedException,
        NoSuchTableError,
        TableAlreadyExistsError,
        ValidationError,
        ValidationException,
    )

    try:
        table = IcebergStaging(catalog, identifier)
    except NoSuchTableError:
        _make_namespace(found, identifier.rpartition(".")[0])
        try:
            with found.create_table_transaction(identifier, rows, properties=dict(properties)) as transaction:
                if partition_by:
                    with transaction.update_spec() as spec:
                        for column, transform in map(parsed_transform, partition_by):
                            spec.add_field(column, transform)
        except (TableAlreadyExistsError, CommitFailedException):
            pass  # another subtask was first
        except (BadRequestError, ValidationError, ValidationException, ValueError, TypeError) as error:
            message = f"The table can't be made: {error}"
            raise ConfigurationError(
                message, where=identifier, hint="mend its name, its columns or its partitions"
            ) from error
        table = IcebergStaging(catalog, identifier)
    _check_partitions(table, partition_by)
    return with_columns(
        table,
        rows,
        lambda: IcebergStaging(catalog, identifier),
        _union,
        CommitFailedException,
        evolve=evolve,
        widen=evolve,
    )


def _make_namespace(catalog: Catalog, namespace: str) -> None:
    """Make a namespace unless it is there; SQL catalogs fail where another subtask makes it at the same time."""
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        if not catalog.namespace_exists(namespace):
            raise


def _union(table: IcebergStaging, columns: pa.Schema) -> None:
    with table.table.update_schema() as update:
        update.union_by_name(columns)


def parsed_transform(text: str) -> tuple[str, str]:
    """Return the column and pyiceberg's transform of `day(column)`, `bucket(16, column)` or a column.

    Raises:
        JobGraphError: It is none of these.
    """
    found = _TRANSFORM.fullmatch(text.strip())
    if found is None:
        if "(" in text or not text.strip():
            message = f"{text!r} is nothing that a table is partitioned by."
            raise JobGraphError(message, hint="a column, day(column), bucket(16, column) or truncate(4, column)")
        return text.strip(), "identity"
    transform, number, column = found.groups()
    return column, f"{transform}[{number}]" if number else transform


def _check_partitions(table: IcebergStaging, partition_by: Sequence[str] | None) -> None:
    """Check that a table is partitioned as was asked.

    Raises:
        ConfigurationError: It isn't.
    """
    if partition_by is None:
        return
    schema = table.table.schema()
    there = [(schema.find_column_name(one.source_id), str(one.transform)) for one in table.table.spec().fields]
    wanted: list[Any] = [parsed_transform(one) for one in partition_by]
    if there != wanted:
        text = ", ".join(f"{transform}({column})" for column, transform in there) or "nothing"
        message = f"The table is partitioned by {text}, and not by {', '.join(partition_by) or 'nothing'}."
        raise ConfigurationError(message, where=table.name, hint="leave with_partition_by() out: the table's is taken")

"""A Delta table as sources see it: the files of a version, what later versions add by the log, and the rows of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from pystate.common.errors import ConfigurationError
from pystate.common.overrides import override
from pystate.connectors.delta.delta_client import deltalake
from pystate.connectors.delta.delta_files import TableFolder
from pystate.connectors.delta.delta_values import partition_text, partition_value
from pystate.connectors.lakehouse.source_table import (
    NOTHING,
    ChangeKind,
    DataFile,
    HistoryGoneError,
    SourceTable,
    TableChange,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MODE = "delta.columnMapping.mode"
_VECTORS = "deletionVectors"
_ROWS_AT_ONCE = 8192


class DeltaReading(SourceTable):
    """A Delta table at the version that was the newest.

    Args:
        uri: The table.
        storage_options: How its storage is reached, as deltalake takes it.

    Raises:
        ConfigurationError: There is none, or its files don't have its columns.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self.name = uri
        self._options = dict(storage_options) or None
        self._table = self._at(None)
        self._vectors: tuple[int, dict[str, Any]] = (NOTHING, {})
        self.folder = TableFolder(uri, storage_options)
        metadata = self._table.metadata()
        self.identity = str(metadata.id)
        self._partition_by = list(metadata.partition_columns)
        self.schema = pa.schema(self._table.schema().to_arrow())
        self.newest = self._table.version()
        if metadata.configuration.get(_MODE, "none") != "none":
            message = f"The table has {_MODE}: its files have other columns than the table."
            raise ConfigurationError(message, where=uri, hint="read it with Spark: env.from_data_frame(...)")

    @override
    def may_have_news(self, after: int) -> bool:
        return self.folder.missing([_log_of(after + 1)]) is None

    @override
    def before_earliest(self) -> int:
        return min((int(one["version"]) for one in self._table.history()), default=0) - 1

    @override
    def before(self, version: int) -> int:
        if not 0 <= version <= self.newest + 1:
            message = f"The table has no version {version}."
            raise ConfigurationError(message, where=self.name, hint=f"the newest one is {self.newest}")
        return version - 1

    @override
    def at(self, timestamp_ms: int) -> int:
        known = [(int(one["version"]), int(one["timestamp"])) for one in self._table.history()]
        older = [version for version, at in known if at <= timestamp_ms]
        if not older and all(version for version, _ in known):
            message = "The table doesn't know any more what it was like at that time."
            raise ConfigurationError(message, where=self.name, hint="begin later, or with a version")
        return max(older, default=NOTHING)

    @override
    def files(self, version: int) -> list[DataFile]:
        table = self._at(version)
        found: list[DataFile] = [
            {
                "path": unquote(one["path"]),
                "partition": {name: partition_text(value) for name, value in (one.get("partition") or {}).items()},
            }
            for one in _without_figures(pa.table(table.get_add_actions())).to_pylist()
        ]
        for path in self._with_vectors(table):
            for one in found:
                if path.endswith(f"/{one['path']}"):
                    one["vectors_of"] = version
        return found

    @override
    def columns(self, version: int) -> pa.Schema:
        return self.schema if version == self.newest else pa.schema(self._at(version).schema().to_arrow())

    @override
    def changes(self, after: int) -> Iterator[TableChange]:
        if after > self.newest:
            message = f"The job has read version {after} of the table, whose newest one is {self.newest} now."
            raise HistoryGoneError(message)
        for version in range(after + 1, self.newest + 1):
            log = self.folder.read(_log_of(version))
            if log is None:
                message = f"Version {version} of the table isn't in its log any more, and wasn't read yet."
                raise HistoryGoneError(message)
            yield self._change(version, [json.loads(line) for line in log.splitlines() if line.strip()])

    def _change(self, version: int, actions: Sequence[Mapping[str, Any]]) -> TableChange:
        """Return what a version does: files that only rearrange rows have `dataChange: false`.

        Raises:
            ConfigurationError: It changes how columns are named in files.
        """
        for metadata in (one["metaData"] for one in actions if "metaData" in one):
            if metadata.get("configuration", {}).get(_MODE, "none") != "none":
                message = f"Version {version} of the table sets {_MODE}: its files have other columns than the table."
                raise ConfigurationError(message, where=self.name, hint="read it with Spark: env.from_data_frame(...)")
        added = [one["add"] for one in actions if "add" in one and one["add"].get("dataChange", True)]
        removed = [one["remove"] for one in actions if "remove" in one and one["remove"].get("dataChange", True)]
        if removed or any(one.get("deletionVector") for one in added):
            return TableChange(version, ChangeKind.CHANGES if added else ChangeKind.DELETES, [])
        files = [{"path": unquote(one["path"]), "partition": dict(one.get("partitionValues") or {})} for one in added]
        return TableChange(version, ChangeKind.ADDS, files)

    @override
    def batches(self, file: DataFile, columns: Sequence[str], skip: int) -> Iterator[pa.RecordBatch]:
        kept = self._kept(file)
        with self.folder.open(str(file["path"])) as stream:
            parquet = pq.ParquetFile(stream)
            there = [name for name in columns if name in parquet.schema_arrow.names]
            if kept is None:
                found = _from_row(parquet, there, skip)
            else:
                found = _of_kept(_from_row(parquet, there, 0), kept, skip)
            for batch in found:
                yield self._with_partition(batch, file["partition"], columns)

    def _with_partition(
        self, batch: pa.RecordBatch, partition: Mapping[str, str | None], columns: Sequence[str]
    ) -> pa.RecordBatch:
        """Return a batch with the columns that are in the log, not in files; with none of them as it is: its rows count."""
        arrays = {name: batch.column(name) for name in columns if name in batch.schema.names}
        for name in columns:
            if name not in arrays and name in partition:
                arrays[name] = pa.repeat(partition_value(partition[name], self.schema.field(name).type), batch.num_rows)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)) if arrays else batch

    def _kept(self, file: DataFile) -> pa.BooleanArray | None:
        """Return which rows of a file its deletion vector leaves; None for all."""
        if "vectors_of" not in file:
            return None
        version = int(file["vectors_of"])
        if self._vectors[0] != version:
            self._vectors = version, self._with_vectors(self._at(version))
        return next(mask for path, mask in self._vectors[1].items() if path.endswith(f"/{file['path']}"))

    def _with_vectors(self, table: DeltaTable) -> dict[str, Any]:
        """Return which rows are there of the files that have deletion vectors, by their places."""
        if _VECTORS not in (table.protocol().reader_features or ()):
            return {}
        found = pa.table(table.deletion_vectors())
        masks = found.column("selection_vector").combine_chunks()
        paths = map(unquote, found.column("filepath").to_pylist())
        return {path: masks[place].values for place, path in enumerate(paths)}

    def _at(self, version: int | None) -> DeltaTable:
        from deltalake.exceptions import DeltaError, TableNotFoundError

        package = deltalake()
        try:
            table: DeltaTable = package.DeltaTable(self.name, version=version, storage_options=self._options)
            return table
        except TableNotFoundError as error:
            message = "There is no Delta table."
            raise ConfigurationError(message, where=self.name, hint="a sink makes it: start that job first") from error
        except DeltaError as error:
            if version is None:
                raise
            message = f"Version {version} of the table can't be read: {error}"
            raise ConfigurationError(
                message, where=self.name, hint="begin with a version that the table still has"
            ) from error


def _without_figures(actions: pa.Table) -> pa.Table:
    return actions.select([name for name in ("path", "partition") if name in actions.column_names])


def _log_of(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def _from_row(parquet: pq.ParquetFile, columns: Sequence[str], skip: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file from one on; without columns those of its first one, since all rows count."""
    groups = list(range(parquet.num_row_groups))
    while groups and skip >= (rows := parquet.metadata.row_group(groups[0]).num_rows):
        skip -= rows
        del groups[0]
    if not groups:
        return
    wanted = list(columns) or parquet.schema_arrow.names[:1]
    for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=groups, columns=wanted):
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


def _of_kept(batches: Iterator[pa.RecordBatch], kept: pa.BooleanArray, skip: int) -> Iterator[pa.RecordBatch]:
    """Yield those rows that a vector keeps, but the first ones; rows beyond it are kept."""
    at = 0
    for batch in batches:
        mask = kept.slice(at, batch.num_rows)
        at += batch.num_rows
        if len(mask) < batch.num_rows:
            mask = pa.concat_arrays([mask, pa.array([True] * (batch.num_rows - len(mask)))])
        left = batch.filter(mask)
        if skip < left.num_rows:
            yield left.slice(skip)
        skip = max(0, skip - left.num_rows)

"""An Iceberg table as sources see it: the files of a snapshot, what later ones append, and the rows of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pystate.common.errors import ConfigurationError
from pystate.common.overrides import override
from pystate.connectors.iceberg.iceberg_catalog import IcebergCatalog
from pystate.connectors.iceberg.iceberg_data_file import to_read, to_scan
from pystate.connectors.lakehouse.source_table import (
    NOTHING,
    ChangeKind,
    DataFile,
    HistoryGoneError,
    SourceTable,
    TableChange,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


_FOLLOWED = "followed"
"""Set in a file that a later snapshot appends, whose rows are those of that time."""


class IcebergReading(SourceTable):
    """An Iceberg table at its current snapshot; versions are ids of snapshots.

    Args:
        catalog: Its catalog.
        identifier: Its name there.

    Raises:
        ConfigurationError: There is none.
    """

    def __init__(self, catalog: IcebergCatalog, identifier: str) -> None:
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        self.name = identifier
        try:
            self._table: Table = catalog.load_table(identifier)
        except NoSuchTableError as error:
            message = "The catalog has no such table."
            raise ConfigurationError(message, where=identifier, hint="a sink makes it: start that job first") from error
        self.identity = str(self._table.metadata.table_uuid)
        self.schema = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        current = self._table.current_snapshot()
        self.newest = NOTHING if current is None else current.snapshot_id

    @override
    def before_earliest(self) -> int:
        oldest = NOTHING
        for snapshot in self._lineage():
            oldest = _before(snapshot)
        return oldest

    @override
    def before(self, version: int) -> int:
        return _before(self._snapshot(version))

    @override
    def at(self, timestamp_ms: int) -> int:
        found = self._table.snapshot_as_of_timestamp(timestamp_ms)
        if found is not None:
            return found.snapshot_id
        if self.before_earliest() != NOTHING:
            message = "The table doesn't know any more what it was like at that time."
            raise ConfigurationError(message, where=self.name, hint="begin later, or with a snapshot")
        return NOTHING

    @override
    def files(self, version: int) -> list[DataFile]:
        snapshot = self._snapshot(version)
        try:
            tasks = list(self._table.scan(snapshot_id=version).plan_files())
        except (ValueError, NotImplementedError) as error:  # of equality deletes, which pyiceberg 0.12 doesn't read
            message = f"Snapshot {version} of the table can't be read: {error}"
            hint = "rewrite its files without equality deletes (Spark's rewrite_data_files), or read it with Spark"
            raise ConfigurationError(message, where=self.name, hint=hint) from error
        return [_of(snapshot, to_read(task.file, task.delete_files)) for task in tasks]

    @override
    def changes(self, after: int) -> Iterator[TableChange]:
        new: list[Snapshot] = []
        reached = self.newest == after
        for snapshot in self._lineage():
            if reached:
                break
            new.append(snapshot)
            reached = after in (_before(snapshot), -snapshot.snapshot_id)
        if not reached and not (new and self._forgotten_parent(new[-1]) == after):
            what = "its first snapshot" if after == NOTHING else f"snapshot {after}, up to which the job has read it"
            message = f"The table doesn't lead back to {what}: snapshots have expired, or it was rolled back."
            raise HistoryGoneError(message)
        return map(self._change, reversed(new))

    def _change(self, snapshot: Snapshot) -> TableChange:
        from pyiceberg.table.snapshots import Operation

        operation = Operation.APPEND if snapshot.summary is None else snapshot.summary.operation
        kinds = {Operation.DELETE: ChangeKind.DELETES, Operation.OVERWRITE: ChangeKind.CHANGES}
        kind = kinds.get(operation, ChangeKind.ADDS)
        files = self._appended(snapshot) if operation is Operation.APPEND else []
        return TableChange(snapshot.snapshot_id, kind, files)

    def _appended(self, snapshot: Snapshot) -> list[DataFile]:
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

        own = snapshot.snapshot_id
        return [
            {**_of(snapshot, to_read(entry.data_file)), _FOLLOWED: True}
            for manifest in snapshot.manifests(self._table.io)
            if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == own
            for entry in manifest.fetch_manifest_entry(self._table.io)
            if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id in (own, None)
        ]

    @override
    def batches(self, file: DataFile, columns: Sequence[str], skip: int) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files

        if file["spec"] not in self._table.specs() or file["schema"] not in (None, *self._table.schemas()):
            self._table.refresh()  # the file is younger than the metadata in hand
        task = to_scan(file)
        schema = self._table.schema()
        if lacking := [name for name in columns if name not in schema.column_names]:
            message = f"The table has no column {', '.join(lacking)} any more."
            raise ConfigurationError(message, where=self.name, hint=f"there are {', '.join(schema.column_names)}")
        if file.get(_FOLLOWED):
            self._check_same(file["schema"], columns)
        scan = ArrowScan(self._table.metadata, self._table.io, schema.select(*columns), AlwaysTrue())
        deletes = _read_all_delete_files(self._table.io, [task])
        # to_record_batches() would read the whole file before it gives the first row
        for batch in scan._record_batches_from_scan_tasks_and_deletes([task], deletes):  # noqa: SLF001
            if skip < batch.num_rows:
                yield batch.slice(skip)
            skip = max(0, skip - batch.num_rows)

    def _check_same(self, schema_id: int | None, columns: Sequence[str]) -> None:
        """Check that columns are those of their names when a file was appended: it has nothing for newer ones.

        Raises:
            ConfigurationError: One was renamed or dropped since, and another one has its name.
        """
        written = None if schema_id is None else self._table.schemas().get(schema_id)
        if written is None:
            return
        now = {field.name: field.field_id for field in self._table.schema().fields}
        others = [field.name for field in written.fields if field.name in columns and now[field.name] != field.field_id]
        if others:
            message = f"The column {', '.join(others)} of the table is another one than when rows were added that come now."
            hint = "read them by the names that the columns have now, as a source with another uid (--allowNonRestoredState)"
            raise ConfigurationError(message, where=self.name, hint=hint)

    def _snapshot(self, version: int) -> Snapshot:
        found = self._table.snapshot_by_id(version)
        if found is None:
            message = f"The table has no snapshot {version}."
            hint = "it may have expired; the table's `snapshots` and `history` metadata tables list those that are there"
            raise ConfigurationError(message, where=self.name, hint=hint)
        return found

    def _forgotten_parent(self, snapshot: Snapshot) -> int | None:
        """Return the snapshot before one, which has expired, as older metadata of the table has it; None if it isn't known.

        pyiceberg takes the name of an expired snapshot out of the one after it.
        """
        from pyiceberg.serializers import FromInputFile

        for older in reversed(self._table.metadata.metadata_log):
            try:
                metadata = FromInputFile.table_metadata(self._table.io.new_input(older.metadata_file))
            except FileNotFoundError:
                return None
            found = metadata.snapshot_by_id(snapshot.snapshot_id)
            if found is None:
                return None
            if found.parent_snapshot_id is not None:
                return found.parent_snapshot_id
        return None

    def _lineage(self) -> Iterator[Snapshot]:
        """Yield the current snapshot and those before it, as far as the table knows them."""
        snapshot: Any = self._table.current_snapshot()
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)


def _of(snapshot: Snapshot, file: DataFile) -> DataFile:
    """Return a file with the schema that its snapshot was made with."""
    return {**file, "schema": snapshot.schema_id}


def _before(snapshot: Snapshot) -> int:
    """Return the snapshot before one; where the table has forgotten it, as pyiceberg does with expired ones, -id for it."""
    if snapshot.parent_snapshot_id is not None:
        return snapshot.parent_snapshot_id
    return NOTHING if _is_first(snapshot) else -snapshot.snapshot_id


def _is_first(snapshot: Snapshot) -> bool:
    """Return whether a snapshot without a parent is the first one of its table, and not what is left of it."""
    figures = {} if snapshot.summary is None else snapshot.summary.additional_properties
    all_added = figures.get("total-records", "0") == figures.get("added-records", "0")
    return all_added and (snapshot.sequence_number or 0) <= 1

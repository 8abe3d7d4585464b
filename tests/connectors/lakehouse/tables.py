"""Tables that sinks of tests write to, and how they are read from outside: by the library, and by DuckDB."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from pystate.common.time import Duration, Instant
from pystate.common.type_info import Types
from pystate.connectors.delta.delta_sink import DeltaSink
from pystate.connectors.delta.delta_source import DeltaSource
from pystate.connectors.iceberg.iceberg_sink import IcebergSink
from pystate.connectors.iceberg.iceberg_source import IcebergSource, StreamingStartingStrategy
from pystate.connectors.lakehouse.table_committer import TableCommitter
from pystate.connectors.lakehouse.table_sink import TableSink
from pystate.connectors.lakehouse.table_source import TableSource
from pystate.testing import OperatorTestHarness, SinkTestHarness
from tests.servers.iceberg_catalog import IcebergRestServer

ROW = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])


SHORT = Duration.of_millis(1)


COLUMNS = pa.schema([("word", pa.string()), ("n", pa.int64())])


class SinkJob:
    """All subtasks of a sink, in one attempt.

    Args:
        subtasks: Their harnesses.
        restored: What `snapshot` gave of an earlier attempt, and by how many subtasks.
    """

    def __init__(self, subtasks: list[SinkTestHarness], restored: Any = None) -> None:
        self.subtasks, parallelism = subtasks, len(subtasks)
        if restored is not None:
            parts, before = restored
            shares = OperatorTestHarness.repartition(parts, before, parallelism, max_parallelism=128)
            for one, share in zip(subtasks, shares, strict=True):
                one.initialize_state(share)
        for one in subtasks:
            one.open()

    def snapshot(self, checkpoint: int) -> Any:
        return [one.snapshot(checkpoint) for one in self.subtasks], len(self.subtasks)

    def complete(self, checkpoint: int) -> None:
        for one in self.subtasks:
            one.notify_of_completed_checkpoint(checkpoint)


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(step: str | None) -> Iterator[list[str]]:
    """Have committers die at a step; yield the steps that were told."""
    told: list[str] = []

    def tell(now: str) -> None:
        told.append(now)
        if now == step:
            raise Killed(step)

    before = TableCommitter.step
    TableCommitter.step = staticmethod(tell)
    try:
        yield told
    finally:
        TableCommitter.step = staticmethod(before)


def sql_catalog(properties: dict[str, str]) -> Any:
    """Return Iceberg's catalog; its library takes most of a second to import, which not each process has to."""
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("tests", **properties)


def rows_by_duckdb(columns: str, files: list[str]) -> list[tuple[Any, ...]]:
    """Return what DuckDB reads of files, sorted."""
    import duckdb

    return sorted(duckdb.sql(f"SELECT {columns} FROM read_parquet({files})").fetchall())


class DeltaTables:
    """Delta tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")

    def sink(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSink:
        return change(DeltaSink.for_table(self.path).with_row_type(ROW)).build()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return what the library reads, which is what DuckDB reads by the log."""
        delta = DeltaTable(self.path)
        table = delta.to_pyarrow_table()
        read = sorted(tuple(row.values()) for row in table.to_pylist())
        assert read == self._by_duckdb(delta.version(), table.column_names)
        return read

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns; partitions are in no file, where DuckDB would look."""
        return DeltaTable(self.path).to_pyarrow_table().to_pylist()

    def _by_duckdb(self, version: int, columns: list[str]) -> list[tuple[Any, ...]]:
        logs = [log for log in Path(self.path, "_delta_log").glob("*.json") if int(log.stem) <= version]
        actions = [json.loads(line) for log in logs for line in log.open()]
        gone = {one["remove"]["path"] for one in actions if "remove" in one}
        files = [f"{self.path}/{one['add']['path']}" for one in actions if "add" in one and one["add"]["path"] not in gone]
        if not files:
            return []
        return rows_by_duckdb(", ".join(columns), files)

    def versions(self) -> int:
        return DeltaTable(self.path).version()

    def write_beside(self, rows: list[dict[str, Any]]) -> None:
        """Write as another program does."""
        write_deltalake(
            self.path, pa.Table.from_pylist(rows, pa.schema([("word", pa.string()), ("n", pa.int64())])), mode="append"
        )

    def source(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSource:
        return change(DeltaSource.for_bounded_row_data(self.path).with_row_type(ROW)).build()

    def following(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSource:
        builder = DeltaSource.for_continuous_row_data(self.path).with_row_type(ROW)
        return change(builder.update_check_interval(SHORT)).build()

    def as_of(self, builder: Any, version: int) -> Any:
        return builder.version_as_of(version)

    def beginning_with(self, builder: Any, version: int) -> Any:
        return builder.starting_version(version)

    def beginning_at(self, builder: Any, at: Instant) -> Any:
        return builder.starting_timestamp(at)

    def beginning_now(self, builder: Any) -> Any:
        return builder.starting_version("latest")

    def skipping(self, builder: Any) -> Any:
        return builder.skip_change_commits()

    def version(self) -> int:
        """Return what a source names the newest version."""
        return DeltaTable(self.path).version()

    def rewrite(self) -> None:
        """Arrange the rows anew, as compaction does."""
        DeltaTable(self.path).optimize.compact()

    def delete(self, word: str) -> None:
        DeltaTable(self.path).delete(f"word = '{word}'")

    def forget(self) -> None:
        """Forget all but the newest version."""
        table = DeltaTable(self.path)
        table.create_checkpoint()
        for log in Path(self.path, "_delta_log").glob("*.json"):
            if int(log.stem) < table.version():
                log.unlink()

    def add_column(self) -> None:
        more = pa.table({"word": ["wide"], "n": [1], "more": pa.array([7], pa.int32())})
        write_deltalake(self.path, more, mode="append", schema_mode="merge")

    def rename_column(self, old: str, new: str) -> None:
        rows = DeltaTable(self.path).to_pyarrow_table()
        named = rows.rename_columns({old: new})
        write_deltalake(self.path, named, mode="overwrite", schema_mode="overwrite")

    def data_files(self) -> list[Path]:
        return list(Path(self.path).glob("*.parquet"))

    def drop(self) -> None:
        shutil.rmtree(self.path)

    def orphans(self) -> list[str]:
        used = {one["path"] for one in pa.table(DeltaTable(self.path).get_add_actions()).to_pylist()}
        found = [str(path.relative_to(self.path)) for path in Path(self.path).rglob("pystate-*")]
        return sorted([*(set(found) - used), *(str(path.name) for path in Path(self.path).rglob("*.files"))])


class IcebergTables:
    """Iceberg tables in a folder, with a catalog in SQLite."""

    def __init__(self, folder: Path) -> None:
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self.folder = folder

    def sink(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSink:
        builder = IcebergSink.for_table("db.t").with_catalog("tests", self.properties)
        return change(builder.with_row_type(ROW)).build()

    def catalog(self) -> Any:
        return sql_catalog(self.properties)

    def table(self) -> Any:
        return self.catalog().load_table("db.t")

    def rows(self) -> list[tuple[Any, ...]]:
        """Return what the library reads, which is what DuckDB reads of the data files."""
        table = self.table()
        found = table.scan().to_arrow()
        read = sorted(tuple(row.values()) for row in found.to_pylist())
        files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
        columns = ", ".join(found.column_names)
        assert read == (rows_by_duckdb(columns, files) if files else [])
        return read

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return self.table().scan().to_arrow().to_pylist()

    def versions(self) -> int:
        return len(self.table().metadata.snapshots)

    def write_beside(self, rows: list[dict[str, Any]]) -> None:
        """Write as another program does."""
        self.table().append(pa.Table.from_pylist(rows, COLUMNS))

    def source(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSource:
        return change(self._source()).build()

    def following(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSource:
        return change(self._source().streaming().monitor_interval(SHORT)).build()

    def _source(self) -> Any:
        return IcebergSource.for_table("db.t").with_catalog("tests", self.properties).with_row_type(ROW)

    def as_of(self, builder: Any, version: int) -> Any:
        return builder.snapshot_id(version)

    def beginning_with(self, builder: Any, version: int) -> Any:
        return builder.snapshot_id(version)

    def beginning_at(self, builder: Any, at: Instant) -> Any:
        return builder.as_of_timestamp(at)

    def beginning_now(self, builder: Any) -> Any:
        return builder.streaming(StreamingStartingStrategy.INCREMENTAL_FROM_LATEST_SNAPSHOT)

    def skipping(self, builder: Any) -> Any:
        return builder.streaming_skip_delete_snapshots().streaming_skip_overwrite_snapshots()

    def version(self) -> int:
        """Return what a source names the newest version."""
        return self.table().current_snapshot().snapshot_id

    def rewrite(self) -> None:
        """Arrange the rows anew, as compaction does."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files
        from pyiceberg.table.snapshots import Operation, Summary
        from pyiceberg.table.update.snapshot import _OverwriteFiles

        table = self.table()
        rows, old = table.scan().to_arrow(), [task.file for task in table.scan().plan_files()]
        new = list(_dataframe_to_data_files(table.metadata, rows, table.io))

        class Replace(_OverwriteFiles):  # pyiceberg writes none
            def _summary(self, properties: dict[str, str] = {}) -> Any:  # noqa: B006
                return Summary(Operation.REPLACE, **super()._summary(properties).additional_properties)

        with table.transaction() as transaction:
            with Replace(Operation.OVERWRITE, transaction, table.io) as replace:
                for file in old:
                    replace.delete_data_file(file)
                for file in new:
                    replace.append_data_file(file)

    def delete(self, word: str) -> None:
        self.table().delete(f"word = '{word}'")

    def forget(self) -> None:
        """Forget all but the newest version."""
        table = self.table()
        with table.maintenance.expire_snapshots() as expire:
            expire.by_ids([one.snapshot_id for one in table.metadata.snapshots[:-1]])

    def add_column(self) -> None:
        table = self.table()
        more = pa.table({"word": ["wide"], "n": [1], "more": pa.array([7], pa.int32())})
        with table.update_schema() as update:
            update.union_by_name(more.schema)
        table.append(more)

    def rename_column(self, old: str, new: str) -> None:
        table = self.table()
        with table.update_schema() as update:
            update.rename_column(old, new)
        table.append(table.scan().to_arrow())

    def data_files(self) -> list[Path]:
        return list(self.folder.rglob("*.parquet"))

    def drop(self) -> None:
        self.catalog().drop_table("db.t")

    def orphans(self) -> list[str]:
        used = {Path(task.file.file_path.removeprefix("file://")) for task in self.table().scan().plan_files()}
        found = [*self.folder.rglob("*.parquet"), *self.folder.rglob("*.files")]
        return sorted(str(path) for path in set(found) - used)


class IcebergTablesByRest(IcebergTables):
    """Iceberg tables in a REST catalog, in which they are the only ones.

    Args:
        folder: Where they are.
        server: The catalog.
        url: How it is reached.
    """

    def __init__(self, folder: Path, server: IcebergRestServer, url: str | None = None) -> None:
        super().__init__(server.put_tables_into(folder))
        self.properties = {"type": "rest", "uri": url or server.url}
        if (catalog := self.catalog()).namespace_exists("db"):
            for table in catalog.list_tables("db"):
                catalog.drop_table(table)

    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("tests", **self.properties)

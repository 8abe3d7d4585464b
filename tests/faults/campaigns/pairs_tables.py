"""The tables of the campaign of pairs as programs outside have them: by the libraries, and by DuckDB."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from pystate.common.time import Duration
from tests.faults.campaigns.pairs_outputs import TABLES
from tests.faults.campaigns.pairs_readers import Unavailable

COLUMNS = pa.schema([("word", pa.string()), ("n", pa.int64())])
PARTED_COLUMNS = pa.schema([("source", pa.string()), *COLUMNS])
BESIDE = "beside"
"""The word, and the partition, of the other writer's rows."""
_OLD_S = 2 * 3600
_HOUR = Duration.of_hours(1)


@contextmanager
def _by_catalog() -> Iterator[None]:
    """Have a catalog that is away for no finding."""
    import requests
    from pyiceberg.exceptions import RESTError
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except (requests.RequestException, RESTError, DBAPIError) as error:
        raise Unavailable from error


def _by_duckdb(columns: list[str], files: Mapping[str, Mapping[str, str]]) -> list[tuple[Any, ...]]:
    """Return the rows of files, whose partitions the log knows and the files don't."""
    import duckdb

    by_partition: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for path, partition in files.items():
        by_partition.setdefault(tuple(partition.items()), []).append(path)
    rows = []
    for partition, paths in by_partition.items():
        known = {name: f"'{value}' AS {name}" for name, value in partition}
        selected = ", ".join(known.get(column, column) for column in columns)
        query = f"SELECT {selected} FROM read_parquet({paths}, hive_partitioning = false, union_by_name = true)"
        rows += duckdb.sql(query).fetchall()
    return sorted(rows)


def _rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def _below(folder: Path) -> set[Path]:
    return {Path(os.path.realpath(path)) for path in folder.rglob("*") if path.is_file()}


def _grown_old(files: set[Path]) -> None:
    for path in files:
        os.utime(path, (time.time() - _OLD_S,) * 2)


class DeltaPlace:
    """A Delta table.

    Args:
        settings: Of the job.
        kind: What is done to it.
    """

    def __init__(self, settings: dict[str, Any], kind: str) -> None:
        self._path = str(Path(settings["tables"], f"delta-{kind}"))

    def make(self, columns: pa.Schema, *rows: dict[str, Any]) -> None:
        """Make it, with rows."""
        from deltalake import write_deltalake

        by = ["source"] if "source" in columns.names else None
        write_deltalake(self._path, pa.Table.from_pylist(list(rows), columns), partition_by=by)

    def rows(self, *, by_duckdb: bool) -> list[tuple[Any, ...]]:
        """Return the rows that the library reads, and DuckDB by the log."""
        from deltalake import DeltaTable

        table = DeltaTable(self._path)
        found = table.to_pyarrow_table()
        columns = sorted(found.column_names, key=PARTED_COLUMNS.names.index)
        read = _rows_of(found.select(columns))
        if by_duckdb:
            added, removed = (self._named(action, table.version()) for action in ("add", "remove"))
            there = {str(path): partition for path, partition in added.items() if path not in removed}
            assert read == _by_duckdb(columns, there), "DuckDB reads something else"
        return read

    def append(self, columns: pa.Schema, *rows: dict[str, Any]) -> None:
        """Append by the library."""
        from deltalake import write_deltalake

        write_deltalake(self._path, pa.Table.from_pylist(list(rows), columns), mode="append")

    def arrange(self) -> None:
        """Compact its files."""
        from deltalake import DeltaTable

        DeltaTable(self._path).optimize.compact()

    def not_found(self) -> list[str]:
        """Remove orphans, and return what they don't include of the files that no version has ever had."""
        from pystate.datastream.connectors.delta import find_orphans, remove_orphans

        before, stray = self.rows(by_duckdb=True), self._stray()
        _grown_old(_below(Path(self._path)))
        found = {Path(os.path.realpath(Path(self._path, one))) for one in find_orphans(self._path, _HOUR)}
        remove_orphans(self._path, _HOUR)
        assert self.rows(by_duckdb=True) == before, "an orphan was none"
        return sorted(map(str, stray - found))

    def _stray(self) -> set[Path]:
        log = Path(os.path.realpath(self._path), "_delta_log")
        return {path for path in _below(Path(self._path)) if log not in path.parents} - self._named("add", 1 << 62).keys()

    def _named(self, action: str, version: int) -> dict[Path, dict[str, str]]:
        """Return the files that an action of the log names, up to a version, with their partitions."""
        logs = [log for log in Path(self._path, "_delta_log").glob("*.json") if int(log.stem) <= version]
        actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        found = [one[action] for one in actions if action in one]
        paths = (Path(self._path, urllib.parse.unquote(one["path"])) for one in found)
        return {Path(os.path.realpath(path)): one["partitionValues"] for path, one in zip(paths, found, strict=True)}


class IcebergPlace:
    """An Iceberg table.

    Args:
        settings: Of the job.
        kind: What is done to it.
    """

    def __init__(self, settings: dict[str, Any], kind: str) -> None:
        self._name, self._properties = f"db.{kind}", settings["catalogs"][kind]

    def make(self, columns: pa.Schema, *rows: dict[str, Any]) -> None:
        """Make it, with rows."""
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists("db")
        with catalog.create_table_transaction(self._name, columns) as transaction:
            if "source" in columns.names:
                with transaction.update_spec() as spec:
                    spec.add_identity("source")
        if rows:
            self.append(columns, *rows)

    def rows(self, *, by_duckdb: bool) -> list[tuple[Any, ...]]:
        """Return the rows that the library reads, and DuckDB by the snapshot's files."""
        with _by_catalog():
            table = self._table()
        found = table.scan().to_arrow()
        read = _rows_of(found)
        if by_duckdb:
            paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
            assert read == _by_duckdb(found.column_names, dict.fromkeys(paths, {})), "DuckDB reads something else"
        return read

    def append(self, columns: pa.Schema, *rows: dict[str, Any]) -> None:
        """Append by the library."""
        with _by_catalog():
            self._table().append(pa.Table.from_pylist(list(rows), columns))

    def arrange(self) -> None:
        """Do nothing: the library can't."""

    def not_found(self) -> list[str]:
        """Remove orphans, and return what they don't include of the files that no snapshot has."""
        from pystate.datastream.connectors.iceberg import find_orphans, remove_orphans

        before, (folder, used) = self.rows(by_duckdb=True), self._used()
        stray = _below(folder) - used
        _grown_old(_below(folder))
        given = (self._name, _HOUR, "pairs", self._properties)
        found = {Path(os.path.realpath(one.removeprefix("file://"))) for one in find_orphans(*given)}
        remove_orphans(*given)
        assert self.rows(by_duckdb=True) == before, "an orphan was none"
        return sorted(map(str, stray - found))

    def _used(self) -> tuple[Path, set[Path]]:
        table = self._table()
        used = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
        used += [one.manifest_list for one in table.metadata.snapshots]
        used += table.inspect.all_manifests().column("path").to_pylist()
        used += table.inspect.all_files().column("file_path").to_pylist()
        plain = [Path(os.path.realpath(one.removeprefix("file://"))) for one in used]
        return Path(os.path.realpath(table.location().removeprefix("file://"))), set(plain)

    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("pairs", **self._properties)

    def _table(self) -> Any:
        return self._catalog().load_table(self._name)


PLACES = {"Delta": DeltaPlace, "Iceberg": IcebergPlace}


def place_of(settings: dict[str, Any], name: str) -> Any:
    """Return the table of a sink."""
    of, kind = TABLES[name]
    return PLACES[of](settings, kind)

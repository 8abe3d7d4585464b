"""Tables that sinks of tests write to, and how they are read from outside: by the library, and by DuckDB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from pystate.common.type_info import Types
from pystate.connectors.delta.delta_sink import DeltaSink
from pystate.connectors.lakehouse.table_committer import TableCommitter
from pystate.connectors.lakehouse.table_sink import TableSink

ROW = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])


COLUMNS = pa.schema([("word", pa.string()), ("n", pa.int64())])


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


class DeltaTables:
    """Delta tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")

    def sink(self, change: Callable[[Any], Any] = lambda builder: builder) -> TableSink:
        return change(DeltaSink.for_table(self.path).with_row_type(ROW)).build()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return what the library reads, which is what DuckDB reads by the log."""
        table = DeltaTable(self.path).to_pyarrow_table()
        read = sorted(tuple(row.values()) for row in table.to_pylist())
        assert read == self._by_duckdb(table.column_names)
        return read

    def _by_duckdb(self, columns: list[str]) -> list[tuple[Any, ...]]:
        actions = [json.loads(line) for log in Path(self.path, "_delta_log").glob("*.json") for line in log.open()]
        gone = {one["remove"]["path"] for one in actions if "remove" in one}
        files = [f"{self.path}/{one['add']['path']}" for one in actions if "add" in one and one["add"]["path"] not in gone]
        if not files:
            return []
        return sorted(duckdb.sql(f"SELECT {', '.join(columns)} FROM read_parquet({files})").fetchall())

    def versions(self) -> int:
        return DeltaTable(self.path).version()

    def write_beside(self, rows: list[dict[str, Any]]) -> None:
        """Write as another program does."""
        write_deltalake(
            self.path, pa.Table.from_pylist(rows, pa.schema([("word", pa.string()), ("n", pa.int64())])), mode="append"
        )

    def orphans(self) -> list[str]:
        used = {one["path"] for one in pa.table(DeltaTable(self.path).get_add_actions()).to_pylist()}
        found = [str(path.relative_to(self.path)) for path in Path(self.path).rglob("pystate-*")]
        return sorted([*(set(found) - used), *(str(path.name) for path in Path(self.path).rglob("*.files"))])

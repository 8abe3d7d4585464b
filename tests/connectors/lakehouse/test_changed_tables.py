"""Tables that others change while rows wait to be committed: what doesn't fit any more is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.types import LongType

from pystate.common.errors import CommitError
from pystate.common.row import Row
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.tables import DeltaTables, IcebergTables, killed_at

WORDS = pa.schema([("word", pa.string()), ("n", pa.int64())])


def replacing(path: str, rows: pa.Table, **options: Any) -> None:
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", **options)


DELTA: dict[str, tuple[Callable[[str], Any], str]] = {
    "type": (lambda path: replacing(path, pa.table({"word": [1], "n": [1]})), "word of the table is int64 now"),
    "dropped": (lambda path: replacing(path, pa.table({"word": ["z"]})), "column n of the table is gone now"),
    "partitions": (
        lambda path: replacing(path, pa.table({"word": ["z"], "n": [1]}), partition_by=["word"]),
        "partitioned by word now; rows were staged for one by nothing",
    ),
    "required": (
        lambda path: replacing(path, pa.Table.from_pylist([], WORDS.append(pa.field("more", pa.int64(), nullable=False)))),
        "needs values for more now",
    ),
    "constraint": (
        lambda path: DeltaTable(path).alter.add_constraint({"small": "n < 9"}),
        r"has changed since .*delta\.constraints\.small",
    ),
    "append only": (
        lambda path: DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"}),
        "has delta.appendOnly now",
    ),
    "no nulls": (
        lambda path: replacing(path, pa.Table.from_pylist([], WORDS.set(1, pa.field("n", pa.int64(), nullable=False)))),
        "n of the table may not be null now|A row has no n",
    ),
}


def committed_after(tables: Any, change: Callable[[], Any], build: Callable[[Any], Any], step: str | None) -> None:
    """Stage a row, have the table changed before its commit or in the middle of it, and commit."""
    with SinkTestHarness(tables.sink(build)) as sink:
        sink.open()
        sink.process_elements([Row(word="a", n=None)])
        sink.snapshot(1)
        left = [change]
        if step is None:
            left.pop()()

        def change_at(now: str) -> None:
            if now == step and left:
                left.pop()()

        with killed_at(None):
            type(sink._operator._committer).step = staticmethod(change_at)
            sink.notify_of_completed_checkpoint(1)


def upserting(builder: Any) -> Any:
    return builder.with_upsert_by("word")


def appending(builder: Any) -> Any:
    return builder


@pytest.mark.parametrize("step", [None, "look"])
@pytest.mark.parametrize(
    ("change", "build"),
    [
        (change, build)
        for change in DELTA
        for build in (appending, upserting)
        if (change, build) not in (("partitions", upserting), ("append only", appending))  # they fit
    ],
)
def test_rows_that_do_not_fit_a_changed_delta_table_are_not_committed(tmp_path, change, build, step):
    tables = DeltaTables(tmp_path)
    make, said = DELTA[change]
    with pytest.raises(CommitError, match=said) as raised:
        committed_after(tables, lambda: make(tables.path), build, step)
    assert raised.value.hint
    assert "a" not in DeltaTable(tables.path).to_pyarrow_table()["word"].to_pylist()


ICEBERG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dropped": (lambda update: update.delete_column("n"), "column n of the table is gone now"),
    "anew": (lambda update: update.delete_column("n").add_column("n", LongType()), "column n of the table is gone now"),
    "required": (lambda update: update.update_column("n", required=True), "needs values for n now"),
    "added": (lambda update: update.add_column("more", LongType(), required=True), "needs values for more now"),
}


@pytest.mark.parametrize("step", [None, "look"])
@pytest.mark.parametrize("change", ICEBERG)
def test_rows_that_do_not_fit_a_changed_iceberg_table_are_not_committed(tmp_path, change, step):
    tables = IcebergTables(tmp_path)
    make, said = ICEBERG[change]

    def change_now() -> None:
        with tables.table().update_schema(allow_incompatible_changes=True) as update:
            make(update)

    with pytest.raises(CommitError, match=said) as raised:
        committed_after(tables, change_now, appending, step)
    assert raised.value.hint
    assert tables.table().current_snapshot() is None


@pytest.mark.parametrize("build", [appending, upserting])
@pytest.mark.parametrize("step", [None, "look"])
def test_a_column_that_comes_is_null_in_rows_that_were_staged(tables, build, step):
    committed_after(tables, tables.add_column, build, step)
    assert sorted(map(str, tables_rows(tables))) == ["('a', None, None)", "('wide', 1, 7)"]


def tables_rows(tables: Any) -> list[tuple[Any, ...]]:
    if isinstance(tables, DeltaTables):
        found = DeltaTable(tables.path).to_pyarrow_table()
    else:
        found = tables.table().scan().to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def test_a_column_that_gets_another_name_in_iceberg_has_the_rows_that_were_staged(tmp_path: Path) -> None:
    tables = IcebergTables(tmp_path)

    def rename() -> None:
        with tables.table().update_schema() as update:
            update.rename_column("word", "text")

    committed_after(tables, rename, appending, "look")
    assert tables.table().scan().to_arrow().to_pylist() == [{"text": "a", "n": None}]

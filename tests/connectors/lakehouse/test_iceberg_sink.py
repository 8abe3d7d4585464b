"""What is Iceberg's own: its catalog, partition transforms, schema evolution, markers that outlive snapshots."""

from __future__ import annotations

import datetime as dt
import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pystate.common.errors import ConfigurationError, JobGraphError, RecordError, UsageError
from pystate.common.row import Row
from pystate.common.time import Duration, Instant
from pystate.common.type_info import TypeInformation, Types
from pystate.datastream.connectors.iceberg import IcebergSink, IcebergSinkBuilder, find_orphans, remove_orphans
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.tables import Killed, sql_catalog

NUMBERS = Types.ROW_NAMED(["n"], [Types.LONG()])


class Place:
    def __init__(self, folder: Path) -> None:
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}

    def builder(self, row_type: TypeInformation = NUMBERS) -> IcebergSinkBuilder:
        return IcebergSink.for_table("db.t").with_catalog("tests", self.properties).with_row_type(row_type)

    def table(self) -> Any:
        return sql_catalog(self.properties).load_table("db.t")

    def make(self, schema: pa.Schema) -> Any:
        catalog = sql_catalog(self.properties)
        catalog.create_namespace("db")
        return catalog.create_table("db.t", schema)

    def read(self) -> list[dict[str, Any]]:
        return self.table().scan().to_arrow().to_pylist()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def written(sink: IcebergSink, rows: list[Row], checkpoint: int = 1, attempt: int = 0, restored: Any = None) -> Any:
    with SinkTestHarness(sink, attempt=attempt) as one:
        if restored is not None:
            one.initialize_state(restored)
        one.open()
        one.process_elements(rows)
        taken = one.snapshot(checkpoint)
        one.notify_of_completed_checkpoint(checkpoint)
        return taken


def test_rows_are_partitioned_by_transforms_and_come_back(place):
    names = ["at", "word", "price", "n"]
    row_type = Types.ROW_NAMED(names, [Types.INSTANT(), Types.STRING(), Types.BIG_DEC(), Types.LONG()])
    parts = ("day(at)", "truncate(2, word)", "price", "bucket(4, n)")
    at = int(dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc).timestamp())
    instants = [Instant(at + day * 86_400, 5000) for day in range(2)]
    rows = [Row.of_fields(names, [one, word, Decimal("1.5"), 7]) for one in instants for word in ("abc", "abd", None)]
    written(place.builder(row_type).with_partition_by(*parts).build(), rows)

    table = place.table()
    assert [str(one.transform) for one in table.spec().fields] == ["day", "truncate[2]", "identity", "bucket[4]"]
    assert len(list(table.scan().plan_files())) == 4
    assert len(list(table.scan(row_filter="at >= '2024-05-02T00:00:00+00:00'").plan_files())) == 2
    read = sorted((row["at"].timestamp(), str(row["word"]), row["price"], row["n"]) for row in place.read())
    assert read == sorted(
        (one.seconds + 5e-6, str(word), Decimal("1.5"), 7) for one in instants for word in ("abc", "abd", None)
    )


def test_files_that_were_staged_before_the_partitions_changed_are_committed_all_the_same(place):
    sink = place.builder().build()
    with SinkTestHarness(sink) as one:
        one.open()
        one.process_elements([Row(n=1), Row(n=2)])
        one.snapshot(1)
        with place.table().update_spec() as spec:
            spec.add_field("n", "identity")
        one.notify_of_completed_checkpoint(1)
    assert sorted(row["n"] for row in place.read()) == [1, 2]
    assert len(list(place.table().scan(row_filter="n = 2").plan_files())) == 1


def test_other_writers_keep_their_retries(place):
    written(place.builder().with_table_properties({"commit.retry.num-retries": "7"}).build(), [Row(n=1)])
    assert place.table().properties["commit.retry.num-retries"] == "7"


def test_the_marker_outlives_its_snapshot(place):
    sink = place.builder().build()
    taken = written(sink, [Row(n=1)])
    table = place.table()
    table.append(pa.table({"n": [2]}))
    with place.table().maintenance.expire_snapshots() as expire:
        expire.by_id(table.metadata.snapshots[0].snapshot_id)
    assert len(place.table().metadata.snapshots) == 1
    written(sink, [], 2, 1, taken)
    assert sorted(row["n"] for row in place.read()) == [1, 2]


def test_a_table_whose_columns_do_not_fit_is_refused(place):
    place.make(pa.schema([("n", pa.int32())]))
    with pytest.raises(ConfigurationError, match="column n of the table is int32, and the stream has int64"):
        written(place.builder().build(), [])
    with pytest.raises(ConfigurationError, match="partitioned by nothing, and not by n"):
        written(place.builder(Types.ROW_NAMED(["n"], [Types.INT()])).with_partition_by("n").build(), [])


def test_columns_are_added_and_widened_when_asked(place):
    place.make(pa.schema([("n", pa.int32())])).append(pa.table({"n": pa.array([1], pa.int32())}))
    wider = Types.ROW_NAMED(["n", "word"], [Types.LONG(), Types.STRING()])
    written(place.builder(wider).with_schema_evolution().build(), [Row(n=1 << 40, word="x")])
    assert sorted(place.read(), key=lambda row: row["n"]) == [{"n": 1, "word": None}, {"n": 1 << 40, "word": "x"}]


def test_a_sink_is_pickled_without_its_connections_and_shows_no_secret(place):
    sink = IcebergSink.for_table("db.t").with_catalog("tests", {**place.properties, "s3.secret-access-key": "hush"}).build()
    sink = sink.for_elements_of(NUMBERS)
    written(sink, [Row(n=1)])
    written(pickle.loads(pickle.dumps(sink)), [Row(n=2)], 2)
    assert sorted(row["n"] for row in place.read()) == [1, 2]
    assert "hush" not in repr(sink)


def test_names_and_partitions_that_are_none_are_refused(place):
    with pytest.raises(JobGraphError, match="named by its namespace"):
        IcebergSink.for_table("t")
    with pytest.raises(JobGraphError, match="nothing that a table is partitioned by"):
        place.builder().with_partition_by("day(n")


@pytest.mark.parametrize("kind", [Types.LIST(NUMBERS), Types.MAP(Types.STRING(), NUMBERS)])
def test_a_null_that_the_table_would_have_as_empty_is_refused(place, kind):
    sink = place.builder(Types.ROW_NAMED(["n", "rows"], [Types.LONG(), kind])).build()
    empty = [] if kind.name.startswith(("LIST", "BASIC")) else {}
    written(sink, [Row(n=1, rows=empty)])
    with pytest.raises(RecordError, match="in the column rows is null"):
        written(sink, [Row(n=2, rows=None)], 2)
    assert len(place.read()) == 1


def test_orphans_are_what_no_snapshot_has_and_nobody_will_commit(place, tmp_path):
    written(place.builder().build(), [Row(n=1)])
    one = SinkTestHarness(place.builder().build(), parallelism=2)
    one.open()
    one.process_element(Row(n=2))
    one.snapshot(1)  # and the job is killed
    place.table().append(pa.table({"n": [3]}))
    place.table().delete("n = 3")  # an older snapshot has it
    day, catalog = Duration.of_days(1), ("tests", place.properties)
    assert find_orphans("db.t", day, *catalog) == []  # too young
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, (1, 1))
    used = {Path(path.removeprefix("file://")) for path in place.table().inspect.all_files()["file_path"].to_pylist()}
    staged = {path for path in files if path.suffix in (".parquet", ".files")} - used
    found = find_orphans("db.t", day, *catalog)
    assert {Path(place.removeprefix("file://")) for place in found} == staged
    assert sorted(path.suffix for path in staged) == [".files", ".parquet"]
    assert remove_orphans("db.t", day, *catalog) == found
    assert find_orphans("db.t", day, *catalog) == []
    assert [row["n"] for row in place.read()] == [1]
    with pytest.raises(UsageError, match="younger than an hour"):
        find_orphans("db.t", Duration.of_minutes(5), *catalog)


def test_orphans_are_also_the_metadata_of_a_commit_that_was_killed(place, tmp_path, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    written(place.builder().build(), [Row(n=1)])
    place.table().append(pa.table({"n": [7]}))
    write = SqlCatalog._write_metadata

    def metadata() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if path.parent.name == "metadata"}

    def write_and_die(**given: Any) -> None:
        write(**given)
        raise Killed

    used = metadata()
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(SqlCatalog, "_write_metadata", staticmethod(write_and_die))
        place.table().append(pa.table({"n": [8]}))
    left = metadata() - used
    assert {path.suffix for path in left} == {".json", ".avro"}
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    given = ("db.t", Duration.of_days(1), "tests", place.properties)
    found = {Path(one.removeprefix("file://")) for one in remove_orphans(*given)}
    assert {path for path in found if path.parent.name == "metadata"} == left
    assert metadata() == used
    assert sorted(row["n"] for row in place.read()) == [1, 7]
    assert find_orphans(*given) == []


def test_subtasks_that_make_catalog_and_namespace_at_once_are_not_in_each_others_way(place, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    make, tables, failed = SqlCatalog.create_namespace_if_not_exists, SqlCatalog.create_tables, []

    def raced(self: Any, *arguments: Any) -> None:
        make(self, *arguments)
        message = "UNIQUE constraint failed"
        raise ValueError(message)

    def raced_once(self: Any) -> None:
        tables(self)
        if not failed:
            failed.append(1)
            message = "table iceberg_tables already exists"
            raise ValueError(message)

    monkeypatch.setattr(SqlCatalog, "create_namespace_if_not_exists", raced)
    monkeypatch.setattr(SqlCatalog, "create_tables", raced_once)
    written(place.builder().build(), [Row(n=1)])
    assert [row["n"] for row in place.read()] == [1]


def test_a_partition_by_fractions_is_refused(place):
    row_type = Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.STRING()])
    with pytest.raises(ConfigurationError, match="can't be partitioned by fractions"):
        written(place.builder(row_type).with_partition_by("a").build(), [])

"""What is Iceberg's own of sources: partitions that change, files that delete rows, strategies."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from moto.server import ThreadedMotoServer
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, IntegerType, LongType, NestedField, UUIDType

from pystate.common.errors import ConfigurationError, JobGraphError
from pystate.common.row import Row
from pystate.common.time import Duration, Instant
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.iceberg.iceberg_reading import IcebergReading
from pystate.connectors.lakehouse.table_committer import TableCommitter
from pystate.datastream.connectors.iceberg import IcebergSink, IcebergSource, StreamingStartingStrategy
from pystate.testing import SinkTestHarness, SourceTestHarness
from tests.connectors.lakehouse.tables import killed_at, sql_catalog
from tests.servers.s3_server import ACCESS_KEY, SECRET_KEY

NUMBERS = Types.ROW_NAMED(["n"], [Types.LONG()])


class Place:
    """A table in a catalog of the test."""

    def __init__(self, folder: Path) -> None:
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}

    def builder(self, row_type: TypeInformation = NUMBERS) -> Any:
        return IcebergSource.for_table("db.t").with_catalog("tests", self.properties).with_row_type(row_type)

    def table(self) -> Any:
        return sql_catalog(self.properties).load_table("db.t")

    def make(self, *numbers: int) -> Any:
        catalog = sql_catalog(self.properties)
        catalog.create_namespace_if_not_exists("db")
        table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
        for number in numbers:
            table.append(pa.table({"n": [number]}))
        return table


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def read(source: Any, row_type: TypeInformation = NUMBERS) -> list[Any]:
    with SourceTestHarness(lambda: source, output_type=row_type) as one:
        return one.run_to_end()


def test_a_table_whose_partitions_change_is_followed(place):
    table = place.make(1)
    source = place.builder().streaming().monitor_interval(Duration.of_millis(1)).build()
    with SourceTestHarness(lambda: source, output_type=NUMBERS, parallelism=2) as one:
        assert [row.n for row in one.run_until(lambda rows: len(rows) == 1)] == [1]
        with place.table().update_spec() as spec:
            spec.add_field("n", "bucket[4]")
        place.table().append(pa.table({"n": list(range(10, 20))}))
        assert sorted(row.n for row in one.run_until(lambda rows: len(rows) == 10)) == list(range(10, 20))
    assert len(table.refresh().specs()) == 2


def test_a_column_that_gets_wider_is_read_on(place):
    table = place.make()
    with table.update_schema() as update:
        update.add_column("small", IntegerType())
    table.append(pa.table({"n": [1], "small": pa.array([5], pa.int32())}))
    row_type = Types.ROW_NAMED(["small"], [Types.LONG()])
    source = place.builder(row_type).streaming().monitor_interval(Duration.of_millis(1)).build()
    with SourceTestHarness(lambda: source, output_type=row_type) as one:
        assert [row.small for row in one.run_until(lambda rows: len(rows) == 1)] == [5]
        with table.update_schema() as update:
            update.update_column("small", LongType())
        place.table().append(pa.table({"n": [2], "small": [1 << 40]}))
        assert [row.small for row in one.run_until(lambda rows: len(rows) == 1)] == [1 << 40]


def test_rows_at_places_that_a_file_deletes_are_left_out(place, tmp_path):
    place.make().append(pa.table({"n": list(range(10))}))
    reading = IcebergReading(place.builder().build()._catalog, "db.t")
    (file,) = reading.files(reading.newest)
    deletes = str(tmp_path / "deletes.parquet")
    pq.write_table(pa.table({"file_path": [file["path"]] * 3, "pos": [0, 3, 9]}), deletes)
    more = {**file, "path": f"file://{deletes}", "content": "POSITION_DELETES", "deletes": []}
    batches = reading.batches({**file, "deletes": [more]}, ["n"], 2)
    assert [n for batch in batches for n in batch.column("n").to_pylist()] == [4, 5, 6, 7, 8]


def test_deletes_by_equality_are_refused(place, monkeypatch):
    from pyiceberg.table import ManifestGroupPlanner

    def plan(*_: Any) -> Any:
        message = "PyIceberg does not yet support equality deletes"
        raise ValueError(message)

    place.make(1)
    monkeypatch.setattr(ManifestGroupPlanner, "plan_files", plan)
    with pytest.raises(ConfigurationError, match="can't be read: PyIceberg does not yet support equality deletes"):
        read(place.builder().build())


def test_the_earliest_snapshot_is_the_oldest_one_that_is_there(place):
    table = place.make(1, 2, 3)
    earliest = StreamingStartingStrategy.INCREMENTAL_FROM_EARLIEST_SNAPSHOT
    source = place.builder().streaming(earliest).build()
    with SourceTestHarness(lambda: source, output_type=NUMBERS) as one:
        assert [row.n for row in one.run_until(lambda rows: len(rows) >= 3)] == [1, 2, 3]
    with place.table().maintenance.expire_snapshots() as expire:
        expire.by_id(table.metadata.snapshots[0].snapshot_id)
    with SourceTestHarness(lambda: source, output_type=NUMBERS) as one:
        assert [row.n for row in one.run_until(lambda rows: len(rows) >= 2)] == [2, 3]


def test_a_snapshot_and_a_strategy_are_not_said_together(place):
    with pytest.raises(JobGraphError, match="was told already where to begin"):
        place.builder().streaming(StreamingStartingStrategy.INCREMENTAL_FROM_LATEST_SNAPSHOT).snapshot_id(1)
    with pytest.raises(JobGraphError, match="named by its namespace"):
        IcebergSource.for_table("t")


def test_columns_that_got_another_name_or_type_are_read_by_their_ids(place):
    table = place.make()
    with table.update_schema() as update:
        update.add_column("small", IntegerType())
    table.append(pa.table({"n": [1], "small": pa.array([5], pa.int32())}))
    with table.update_schema() as update:
        update.rename_column("n", "number")
        update.update_column("small", LongType())
    row_type = Types.ROW_NAMED(["small", "number"], [Types.LONG(), Types.LONG()])
    assert read(place.builder(row_type).build(), row_type) == [Row(small=5, number=1)]


def test_bytes_of_a_fixed_length_are_read_as_bytes_and_not_as_texts(place):
    catalog = sql_catalog(place.properties)
    catalog.create_namespace_if_not_exists("db")
    columns = Schema(NestedField(1, "id", UUIDType(), required=False), NestedField(2, "code", FixedType(4), required=False))
    table = catalog.create_table("db.t", columns)
    of_table = pa.schema([("id", pa.uuid()), ("code", pa.binary(4))])
    row = {"id": pa.array([b"0123456789abcdef", None], pa.binary(16)), "code": pa.array([b"abcd", None], pa.binary(4))}
    table.append(pa.table([pa.ExtensionArray.from_storage(pa.uuid(), row["id"]), row["code"]], schema=of_table))
    part = Types.PRIMITIVE_ARRAY(Types.BYTE())
    row_type = Types.ROW_NAMED(["id", "code"], [part, part])
    found = read(place.builder(row_type).build(), row_type)
    assert [(one.id, one.code) for one in found] == [(b"0123456789abcdef", b"abcd"), (None, None)]
    texts = Types.ROW_NAMED(["id"], [Types.STRING()])
    with pytest.raises(ConfigurationError, match=r"extension<arrow\.uuid>, which isn't read as string"):
        read(place.builder(texts).build(), texts)


def test_times_and_exact_numbers_come_back(place):
    names = ["time", "at", "moment", "exact", "list", "map"]
    inner = Types.ROW_NAMED(["x", "at"], [Types.BIG_DEC(), Types.INSTANT()])
    types = [Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT(), Types.BIG_DEC()]
    row_type = Types.ROW_NAMED(names, [*types, Types.LIST(inner), Types.MAP(Types.STRING(), Types.SQL_TIMESTAMP())])
    at = dt.datetime(2024, 5, 1, 12, 30, 15, 123456)  # noqa: DTZ001
    row = Row.of_fields(
        names,
        [
            dt.time(1, 2, 3, 4),
            at,
            Instant(-5, 7000),
            Decimal("1.25"),
            [Row(x=Decimal(2), at=Instant(1, 1000))],
            {"a": at, "b": None},
        ],
    )
    sink = IcebergSink.for_table("db.t").with_catalog("tests", place.properties).with_row_type(row_type).build()
    with SinkTestHarness(sink) as one:
        one.open()
        one.process_element(row)
        one.snapshot(1)
        one.notify_of_completed_checkpoint(1)
    assert read(place.builder(row_type).build(), row_type) == [row]


def test_a_table_on_s3_is_written_replaced_and_followed(place, s3_server):
    bucket = s3_server.new_bucket()
    place.properties |= {
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": s3_server.url,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    builder = IcebergSink.for_table("db.t").with_catalog("tests", place.properties).with_row_type(NUMBERS)
    source = place.builder().streaming().monitor_interval(Duration.of_millis(1)).streaming_skip_overwrite_snapshots().build()
    seen: list[int] = []
    for checkpoint, sink in enumerate([builder.build(), builder.with_upsert_by("n").build()], 1):
        with SinkTestHarness(sink, parallelism=2) as one, SinkTestHarness(sink, parallelism=2, subtask_index=1) as other:
            for subtask in (one, other):
                subtask.open()
            one.process_element(Row(n=checkpoint))
            other.process_element(Row(n=1))
            for subtask in (one, other):
                subtask.snapshot(checkpoint)
            for subtask in (one, other):
                subtask.notify_of_completed_checkpoint(checkpoint)
    assert sorted(row.n for row in read(place.builder().build())) == [1, 2]
    with SourceTestHarness(lambda: source, output_type=NUMBERS) as one:
        seen += [row.n for row in one.run_until(lambda rows: len(rows) >= 2)]
        place.table().append(pa.table({"n": [3]}))
        seen += [row.n for row in one.run_until(lambda rows: len(rows) >= 1)]
    assert sorted(seen) == [1, 2, 3]
    assert SECRET_KEY not in repr(source)


def test_a_table_of_glues_catalog_is_written_beside_another_writer_and_read():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        requests.put(f"{url}/bucket", timeout=60).raise_for_status()
        keys = {"access-key-id": ACCESS_KEY, "secret-access-key": SECRET_KEY, "region": "us-east-1", "endpoint": url}
        properties = {f"{service}.{key}": value for service in ("glue", "s3") for key, value in keys.items()}
        catalog = ("glue", {"type": "glue", "warehouse": "s3://bucket/warehouse", **properties})
        sink = IcebergSink.for_table("db.t").with_catalog(*catalog).with_row_type(NUMBERS).build()

        def write_beside(step: str) -> None:
            if step == "look" and not beside:
                beside.append(1)
                load_catalog(catalog[0], **catalog[1]).load_table("db.t").append(pa.table({"n": [7]}))

        beside: list[int] = []
        with SinkTestHarness(sink) as one, killed_at(None):
            TableCommitter.step = staticmethod(write_beside)
            one.open()
            one.process_element(Row(n=1))
            one.snapshot(1)
            one.notify_of_completed_checkpoint(1)
        source = IcebergSource.for_table("db.t").with_catalog(*catalog).with_row_type(NUMBERS).build()
        assert sorted(row.n for row in read(source)) == [1, 7]
    finally:
        server.stop()


def test_rows_that_were_added_under_a_column_that_is_another_one_now_are_refused_by_who_follows(place):
    source = place.builder().streaming().monitor_interval(Duration.of_millis(1)).build()
    table = place.make(1)
    with SourceTestHarness(lambda: source, output_type=NUMBERS) as one:
        assert [row.n for row in one.run_until(lambda rows: len(rows) == 1)] == [1]
        snapshots = one.snapshot(1)
    table.append(pa.table({"n": [2]}))
    with table.update_schema() as update:
        update.rename_column("n", "number")
    with table.update_schema() as update:
        update.add_column("n", LongType())
    with (
        SourceTestHarness(lambda: source, output_type=NUMBERS, snapshots=snapshots) as one,
        pytest.raises(ConfigurationError, match="The column n of the table is another one than when rows were added"),
    ):
        one.run_until(lambda rows: len(rows) == 1)
    latest = place.builder().streaming(StreamingStartingStrategy.INCREMENTAL_FROM_LATEST_SNAPSHOT)
    with SourceTestHarness(latest.monitor_interval(Duration.of_millis(1)).build, output_type=NUMBERS) as one:
        one.run_epoch()
        table.append(pa.table({"number": [3], "n": [4]}))
        assert [row.n for row in one.run_until(lambda rows: len(rows) == 1)] == [4]
    assert sorted(row.n or 0 for row in read(place.builder().build())) == [0, 0, 4]  # None for older ones

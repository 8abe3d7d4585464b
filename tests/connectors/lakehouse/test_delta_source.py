"""What is Delta's own of sources: partitions in the log, deletion vectors, column mapping, S3."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pystate.common.errors import ConfigurationError, JobGraphError
from pystate.common.row import Row
from pystate.common.time import Duration, Instant
from pystate.common.type_info import TypeInformation, Types
from pystate.datastream.connectors.delta import DeltaSink, DeltaSource
from pystate.datastream.connectors.hybrid_source import HybridSource
from pystate.testing import SinkTestHarness, SourceTestHarness
from tests.servers.s3_server import ACCESS_KEY, SECRET_KEY

NUMBERS = Types.ROW_NAMED(["n"], [Types.LONG()])
AT = dt.datetime(2024, 5, 1, 12, 30, 15, 123456)  # noqa: DTZ001


def read(path: Any, row_type: TypeInformation = NUMBERS, change: Any = lambda builder: builder, **options: Any) -> list[Any]:
    source = change(DeltaSource.for_bounded_row_data(str(path)).with_row_type(row_type)).build()
    source.check_start()
    with SourceTestHarness(lambda: source, output_type=row_type, **options) as one:
        return one.run_to_end()


def written(sink: DeltaSink, rows: list[Row]) -> None:
    with SinkTestHarness(sink) as one:
        one.open()
        one.process_elements(rows)
        one.snapshot(1)
        one.notify_of_completed_checkpoint(1)


def test_partitions_of_every_type_come_from_the_log(tmp_path):
    names = ["text", "whole", "flag", "day", "at", "n"]
    types = [
        Types.STRING(),
        Types.LONG(),
        Types.BOOLEAN(),
        Types.SQL_DATE(),
        Types.INSTANT(),
        Types.LONG(),
    ]
    row_type = Types.ROW_NAMED(names, types)
    sink = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(row_type).with_partition_by(*names[:-1]).build()
    instant = Instant(1_714_566_615, 123_456_000)
    rows = [
        Row.of_fields(names, ["a b/c=d%", 1 << 40, True, dt.date(2024, 5, 1), instant, 1]),
        Row.of_fields(names, ["ü", -1, False, dt.date(1960, 1, 1), Instant(-1), 2]),
        Row.of_fields(names, [None] * 5 + [3]),
    ]
    written(sink, rows)
    found = read(tmp_path / "t", row_type)
    assert sorted((tuple(row) for row in found), key=lambda row: row[-1]) == [tuple(row) for row in rows]


def test_partitions_that_others_have_written_are_found_by_their_paths(tmp_path):
    path = str(tmp_path / "t")
    at, exact = pa.array([AT] * 3, pa.timestamp("us", "UTC")), Decimal("1.5")
    table = pa.table({"kind": ["a b/c=d%", "ü&?", "x"], "at": at, "exact": [exact] * 3, "n": [1, 2, 3]})
    write_deltalake(path, table, partition_by=["kind", "at", "exact"])
    types = [Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()]
    row_type = Types.ROW_NAMED(["n", "kind", "at", "exact"], types)
    wanted = [(1, "a b/c=d%", AT, exact), (2, "ü&?", AT, exact), (3, "x", AT, exact)]
    assert sorted(tuple(row) for row in read(path, row_type)) == wanted
    followed = DeltaSource.for_continuous_row_data(path).with_row_type(row_type).starting_version(0).build()
    with SourceTestHarness(lambda: followed, output_type=row_type) as one:
        assert sorted(tuple(row) for row in one.run_until(lambda rows: len(rows) == 3)) == wanted
    kinds = Types.ROW_NAMED(["kind"], [Types.STRING()])
    assert sorted(row.kind for row in read(path, kinds)) == sorted(one[1] for one in wanted)  # no column of the files


def vector_of(rows: list[int]) -> tuple[str, int]:
    """Return a deletion vector as it stands in the log, a portable 64-bit roaring bitmap in Z85, and its bytes."""
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    array = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + array
    data += b"\0" * (-len(data) % 4)
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(alphabet[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0)), len(data)


def delete_by_vector(path: Path, rows: list[int]) -> None:
    """Commit a deletion vector, as Spark does."""
    table = DeltaTable(str(path))
    (add,) = pa.table(table.get_add_actions()).to_pylist()
    name, at, size = add["path"], add["modification_time"], add["size_bytes"]
    text, length = vector_of(rows)
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": length, "cardinality": len(rows)}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    actions = [
        {"protocol": {**protocol, **features}},
        {"remove": {"path": name, "deletionTimestamp": 1, "dataChange": True, "partitionValues": {}, "size": size}},
        {
            "add": {
                "path": name,
                "size": size,
                "partitionValues": {},
                "modificationTime": at if isinstance(at, int) else 1,
                "dataChange": True,
                "stats": json.dumps({"numRecords": add["num_records"]}),
                "deletionVector": vector,
            }
        },
        {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
    ]
    log = path / "_delta_log" / f"{table.version() + 1:020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))


def test_rows_that_a_deletion_vector_deletes_are_left_out(tmp_path):
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"n": list(range(10))}))
    delete_by_vector(path, [0, 3, 9])
    assert sorted(row.n for row in read(path)) == [1, 2, 4, 5, 6, 7, 8]
    assert [row.n for row in read(path, change=lambda builder: builder.version_as_of(0))] == list(range(10))
    source = DeltaSource.for_bounded_row_data(str(path)).with_row_type(NUMBERS).build()
    with SourceTestHarness(lambda: source, output_type=NUMBERS, rows_per_epoch=3) as one:
        first = one.run_epoch()
        taken = one.snapshot(1)
    with SourceTestHarness(lambda: source, taken, output_type=NUMBERS, parallelism=2) as one:
        assert [row.n for row in first + one.run_to_end()] == [1, 2, 4, 5, 6, 7, 8]


def test_a_version_is_read_by_the_columns_that_it_had(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"n": [1, 2]}))
    write_deltalake(path, pa.table({"text": ["a"]}), mode="overwrite", schema_mode="overwrite")
    assert sorted(row.n for row in read(path, change=lambda builder: builder.version_as_of(0))) == [1, 2]
    with pytest.raises(ConfigurationError, match="no column n"):
        read(path)


@pytest.mark.parametrize(
    ("there", "kind", "said"),
    [
        (pa.array([AT], pa.timestamp("us")), Types.SQL_DATE(), "timestamp.* isn't read as date32"),
        (pa.array([AT], pa.timestamp("us")), Types.LONG(), "timestamp.* isn't read as int64"),
        (pa.array([AT.date()]), Types.SQL_TIMESTAMP(), "date32.* isn't read as timestamp"),
        (pa.array([1e300]), Types.FLOAT(), "double, which isn't read as float"),
        (pa.array([2]), Types.BOOLEAN(), "int64, which isn't read as bool"),
        (pa.array([1 << 60]), Types.DOUBLE(), "int64, which isn't read as double"),
        (pa.array(["12"]), Types.LONG(), "string, which isn't read as int64"),
        (pa.array([Decimal("1.5")]), Types.DOUBLE(), "decimal128.* isn't read as double"),
    ],
)
def test_a_column_is_not_read_as_a_narrower_type(tmp_path, there, kind, said):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": there}))
    row_type = Types.ROW_NAMED(["v"], [kind])
    for make in (DeltaSource.for_bounded_row_data, DeltaSource.for_continuous_row_data):
        source = make(path).with_row_type(row_type).build()
        with pytest.raises(ConfigurationError, match=said):
            with SourceTestHarness(lambda source=source: source, output_type=row_type) as one:
                one.run_epoch()


def test_deletes_alone_are_left_out_when_asked_and_changes_are_not(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"n": [1, 2], "part": ["a", "b"]}), partition_by=["part"])
    builder = DeltaSource.for_continuous_row_data(path).with_row_type(NUMBERS).update_check_interval(Duration.of_millis(1))
    followed = builder.ignore_deletes().build()
    with SourceTestHarness(lambda: followed, output_type=NUMBERS) as one:
        one.run_until(lambda rows: len(rows) == 2)
        DeltaTable(path).delete("part = 'a'")
        write_deltalake(path, pa.table({"n": [3], "part": ["b"]}), mode="append")
        assert [row.n for row in one.run_until(lambda rows: len(rows) == 1)] == [3]
        DeltaTable(path).update({"n": "n + 10"}, predicate="n = 2")
        with pytest.raises(ConfigurationError, match=r"changes or overwrites rows.*\n.*\n.*skip_change_commits\(\)"):
            one.run_until(lambda rows: len(rows) == 1)


def test_what_a_table_can_not_be_read_with_is_refused(tmp_path):
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"n": [1]}))
    with pytest.raises(JobGraphError, match="doesn't know which columns"):
        DeltaSource.for_bounded_row_data(str(path)).build()
    with pytest.raises(JobGraphError, match="a number from 0 on"):
        DeltaSource.for_continuous_row_data(str(path)).starting_version("first")
    with pytest.raises(ConfigurationError, match="has no version 7"):
        source = DeltaSource.for_continuous_row_data(str(path)).with_row_type(NUMBERS).starting_version(7).build()
        SourceTestHarness(lambda: source, output_type=NUMBERS)
    log = path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
            line["metaData"]["schemaString"] = json.dumps(schema)
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigurationError, match=r"delta\.columnMapping\.mode"):
        read(path)


def test_a_table_on_s3_is_read_and_followed(s3_server):
    uri = f"s3://{s3_server.new_bucket()}/tables/t"
    options = {
        "AWS_ENDPOINT_URL": s3_server.url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    write_deltalake(uri, pa.table({"n": [1, 2]}), storage_options=options)
    assert [row.n for row in read(uri, change=lambda builder: builder.with_storage_options(options))] == [1, 2]
    builder = DeltaSource.for_continuous_row_data(uri).with_row_type(NUMBERS).with_storage_options(options)
    source = builder.update_check_interval(Duration.of_millis(1)).starting_version("latest").build()
    with SourceTestHarness(lambda: source, output_type=NUMBERS) as one:
        one.run_epoch()
        write_deltalake(uri, pa.table({"n": [3]}), mode="append", storage_options=options)
        assert [row.n for row in one.run_until(lambda rows: len(rows) == 1)] == [3]
    assert SECRET_KEY not in repr(source)


def test_a_table_is_read_before_another_source(tmp_path):
    for name, numbers in (("old", [1, 2]), ("new", [3])):
        write_deltalake(str(tmp_path / name), pa.table({"n": numbers}))
    old = DeltaSource.for_bounded_row_data(str(tmp_path / "old")).with_row_type(NUMBERS).build()
    new = DeltaSource.for_continuous_row_data(str(tmp_path / "new")).with_row_type(NUMBERS)
    source = HybridSource.builder(old).add_source(new.update_check_interval(Duration.of_millis(1)).build()).build()
    with SourceTestHarness(lambda: source, output_type=NUMBERS, rows_per_epoch=1) as one:
        read = [row.n for row in one.run_epoch() + one.run_epoch()]
        taken = one.snapshot(1)
    with SourceTestHarness(lambda: source, taken, output_type=NUMBERS, parallelism=2) as one:
        write_deltalake(str(tmp_path / "new"), pa.table({"n": [4]}), mode="append")
        read += [row.n for row in one.run_until(lambda rows: len(rows) >= 4 - len(read))]
    assert sorted(read) == [1, 2, 3, 4]

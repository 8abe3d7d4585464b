"""What is Delta's own: partitions, statistics, the table made or checked, its log, S3."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from pystate.common.errors import ConfigurationError, JobGraphError, RecordError, UsageError
from pystate.common.row import Row
from pystate.common.time import Duration
from pystate.common.type_info import Types
from pystate.connectors.lakehouse.table_committer import TableCommitter
from pystate.datastream.connectors.delta import DeltaSink, find_orphans, remove_orphans
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.tables import killed_at
from tests.servers.s3_server import ACCESS_KEY, SECRET_KEY


def written(sink: DeltaSink, rows: list[Row], checkpoint: int = 1) -> None:
    with SinkTestHarness(sink) as one:
        one.open()
        one.process_elements(rows)
        one.snapshot(checkpoint)
        one.notify_of_completed_checkpoint(checkpoint)


def read(path: Path) -> list[dict[str, Any]]:
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def test_every_type_that_a_table_has_comes_back(tmp_path):
    names = ["text", "whole", "small", "real", "flag", "day", "at", "bytes", "exact", "list", "map", "inner"]
    types = [
        *(
            Types.STRING(),
            Types.LONG(),
            Types.SHORT(),
            Types.DOUBLE(),
            Types.BOOLEAN(),
            Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(),
        ),
        *(
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.BIG_DEC(),
            Types.LIST(Types.LONG()),
            Types.MAP(Types.STRING(), Types.LONG()),
        ),
        Types.ROW_NAMED(["x"], [Types.LONG()]),
    ]
    at = dt.datetime(2024, 5, 1, 12, 30, 15, 123456)  # noqa: DTZ001
    values = ["é", 1 << 40, -3, 0.5, True, dt.date(2024, 5, 1), at, b"\0\1", Decimal("1.5"), [1, 2], {"a": 1}, Row(x=4)]
    sink = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(Types.ROW_NAMED(names, types)).build()
    written(sink, [Row.of_fields(names, values), Row.of_fields(names, [None] * len(names))])

    full, empty = sorted(read(tmp_path / "t"), key=lambda row: row["text"] is None)
    assert full["at"].replace(tzinfo=None) == at
    assert {**full, "at": at, "map": dict(full["map"]), "inner": Row(**full["inner"])} == dict(
        zip(names, values, strict=True)
    )
    assert set(empty.values()) <= {None, ()} or all(value is None for value in empty.values())


def test_rows_are_partitioned_and_readers_leave_files_out(tmp_path):
    names = ["day", "kind", "n"]
    row_type = Types.ROW_NAMED(names, [Types.SQL_DATE(), Types.STRING(), Types.LONG()])
    sink = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(row_type).with_partition_by("day", "kind").build()
    days = [dt.date(2024, 5, 1), None]
    rows = [Row.of_fields(names, [day, kind, n]) for day in days for kind in ("a b/c=d%", "ü", None) for n in range(2)]
    written(sink, rows)

    table = DeltaTable(str(tmp_path / "t"))
    assert table.metadata().partition_columns == ["day", "kind"]
    assert len(table.file_uris()) == 6
    as_tuples = sorted((str(row["day"]), str(row["kind"]), row["n"]) for row in read(tmp_path / "t"))
    assert as_tuples == sorted((str(row["day"]), str(row["kind"]), row["n"]) for row in rows)
    assert table.to_pyarrow_table(filters=[("kind", "=", "ü")]).num_rows == 4


def test_files_are_bounded_sorted_and_have_statistics(tmp_path):
    row_type = Types.ROW_NAMED(["n"], [Types.LONG()])
    builder = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(row_type).with_max_rows_per_file(10).with_sort_by("n")
    written(builder.with_compression("zstd").build(), [Row(n=n) for n in reversed(range(25))])

    actions = pa.table(DeltaTable(str(tmp_path / "t")).get_add_actions(flatten=True)).to_pylist()
    assert sorted((one["num_records"], one["min.n"], one["max.n"]) for one in actions) == [
        (5, 0, 4),
        (10, 5, 14),
        (10, 15, 24),
    ]
    assert all(one["path"].endswith(".zstd.parquet") for one in actions)
    files = DeltaTable(str(tmp_path / "t")).file_uris()
    assert all(
        pa.parquet.read_table(file).column("n").to_pylist() == sorted(pa.parquet.read_table(file)["n"].to_pylist())
        for file in files
    )


def test_a_table_whose_columns_do_not_fit_is_refused_and_one_that_is_wider_is_taken(tmp_path):
    path = str(tmp_path / "t")
    there = pa.schema([("n", pa.int32()), ("other", pa.string())])
    DeltaTable.create(path, there)

    def open_with(kind: Any, name: str = "n") -> None:
        with SinkTestHarness(DeltaSink.for_table(path).with_row_type(Types.ROW_NAMED([name], [kind])).build()) as one:
            one.open()

    with pytest.raises(ConfigurationError, match="column n of the table is int32, and the stream has int64"):
        open_with(Types.LONG())
    with pytest.raises(ConfigurationError, match=r"no column for more \(int32\)"):
        open_with(Types.INT(), "more")
    with pytest.raises(ConfigurationError, match="partitioned by nothing, and not by n"):
        written(
            DeltaSink.for_table(path).with_row_type(Types.ROW_NAMED(["n"], [Types.INT()])).with_partition_by("n").build(), []
        )
    written(DeltaSink.for_table(path).with_row_type(Types.ROW_NAMED(["n"], [Types.SHORT()])).build(), [Row(n=7)])
    assert read(tmp_path / "t") == [{"n": 7, "other": None}]


def test_columns_are_added_when_asked(tmp_path):
    path = tmp_path / "t"
    written(DeltaSink.for_table(str(path)).with_row_type(Types.ROW_NAMED(["a"], [Types.LONG()])).build(), [Row(a=1)])
    wider = DeltaSink.for_table(str(path)).with_row_type(Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]))
    written(wider.with_schema_evolution().build(), [Row(a=2, b="x")], 2)
    assert sorted(map(str, read(path))) == ["{'a': 1, 'b': None}", "{'a': 2, 'b': 'x'}"]


def test_what_only_an_engine_can_keep_is_refused(tmp_path):
    path = str(tmp_path / "t")
    DeltaTable.create(path, pa.schema([("n", pa.int64())])).alter.add_constraint({"positive": "n > 0"})
    sink = DeltaSink.for_table(path).with_row_type(Types.ROW_NAMED(["n"], [Types.LONG()])).build()
    with pytest.raises(ConfigurationError, match=r"delta\.constraints\.positive"):
        written(sink, [Row(n=1)])


def test_a_null_where_the_table_has_none_is_said(tmp_path):
    path = str(tmp_path / "t")
    DeltaTable.create(path, pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    sink = DeltaSink.for_table(path).with_row_type(Types.ROW_NAMED(["n"], [Types.LONG()])).build()
    with pytest.raises(RecordError, match="A row has no n"):
        written(sink, [Row(n=None)])


def test_the_marker_outlives_the_log_that_it_was_written_to(tmp_path):
    path = tmp_path / "t"
    sink = DeltaSink.for_table(str(path)).with_row_type(Types.ROW_NAMED(["n"], [Types.LONG()])).build()
    with SinkTestHarness(sink) as one:
        one.open()
        one.process_element(Row(n=1))
        taken = one.snapshot(1)
        one.notify_of_completed_checkpoint(1)
    DeltaTable(str(path)).create_checkpoint()
    for log in (path / "_delta_log").glob("*.json"):
        if int(log.stem) < DeltaTable(str(path)).version():
            log.unlink()
    with SinkTestHarness(sink, attempt=1) as one:
        one.initialize_state(taken)
        one.open()
    assert read(path) == [{"n": 1}]


def test_the_type_of_the_stream_is_taken_and_one_without_names_is_refused():
    sink = DeltaSink.for_table("t").build()
    assert sink.for_elements_of(Types.ROW_NAMED(["n"], [Types.LONG()])).settings.row_type.names == ("n",)
    with pytest.raises(JobGraphError, match="needs to know the columns"):
        sink.for_elements_of(None)
    with pytest.raises(JobGraphError, match="named ROW"):
        sink.for_elements_of(Types.STRING())


def test_a_table_on_s3_is_written_by_several_subtasks_and_a_racing_writer(s3_server):
    uri = f"s3://{s3_server.new_bucket()}/tables/t"
    options = {
        "AWS_ENDPOINT_URL": s3_server.url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "timeout": "10s",
        "max_retries": "0",
    }
    builder = DeltaSink.for_table(uri).with_row_type(Types.ROW_NAMED(["n"], [Types.LONG()])).with_storage_options(options)
    subtasks = [SinkTestHarness(builder.build(), parallelism=2, subtask_index=index) for index in range(2)]
    for n, one in enumerate(subtasks):
        one.open()
        one.process_element(Row(n=n))
    for one in subtasks:
        one.snapshot(1)

    def write_beside(step: str) -> None:
        if step == "look" and not beside:
            beside.append(1)
            write_deltalake(uri, pa.table({"n": [7]}), mode="append", storage_options=options)

    beside: list[int] = []
    with killed_at(None):
        TableCommitter.step = staticmethod(write_beside)
        for one in subtasks:
            one.notify_of_completed_checkpoint(1)
            one.close()
    table = DeltaTable(uri, storage_options=options)
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == [0, 1, 7]
    assert table.version() == 2
    assert SECRET_KEY not in repr(builder.build())


def test_what_a_commit_has_rewritten_that_was_not_the_first_is_found_and_what_versions_had_is_not(tmp_path):
    path, day, sources = tmp_path / "t", Duration.of_days(1), {"source_alias": "s", "target_alias": "t"}
    for number in range(3):
        write_deltalake(path, pa.table({"n": [number], "part": ["a b"]}), mode="append", partition_by=["part"])
    late = DeltaTable(path)
    write_deltalake(path, pa.table({"n": [9], "part": ["a b"]}), mode="append")
    used = set(path.rglob("*.parquet"))
    with pytest.raises(CommitFailedError):
        late.merge(pa.table({"n": [1], "part": ["a b"]}), "t.n = s.n", **sources).when_matched_update_all().execute()
    left = set(path.rglob("*.parquet")) - used
    assert left
    DeltaTable(path).delete("n = 2")  # an older version has it
    for file in path.rglob("*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    names = sorted(str(file.relative_to(path)) for file in left)
    assert remove_orphans(str(path), day) == names
    assert find_orphans(str(path), day) == []
    assert sorted(row["n"] for row in read(path)) == [0, 1, 9]
    assert DeltaTable(path, version=3).to_pyarrow_table().num_rows == 4


def test_what_a_killed_job_has_left_is_found_and_removed_and_nothing_else(tmp_path):
    path, day = tmp_path / "t", Duration.of_days(1)
    sink = DeltaSink.for_table(str(path)).with_row_type(Types.ROW_NAMED(["n"], [Types.LONG()])).build()
    written(sink, [Row(n=1)])
    subtasks = [SinkTestHarness(sink, parallelism=2, subtask_index=index, attempt=1) for index in range(2)]
    for one in subtasks:
        one.open()
        one.process_element(Row(n=2))
        one.snapshot(2)
    (path / "somebodys.parquet").write_bytes(b"PAR1")
    left = {*path.glob("pystate-*-1-*.parquet"), *path.glob("_pystate/*.files")}
    assert len(left) == 4
    assert find_orphans(str(path), day) == []  # too young

    for file in path.rglob("*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    names = sorted(str(file.relative_to(path)) for file in left)
    assert find_orphans(str(path), day) == names
    assert remove_orphans(str(path), day) == names
    assert find_orphans(str(path), day) == []
    assert (path / "somebodys.parquet").exists()
    assert read(path) == [{"n": 1}]
    with pytest.raises(UsageError, match="younger than an hour"):
        find_orphans(str(path), Duration.of_minutes(5))


@pytest.mark.parametrize(
    ("types", "by", "said"),
    [
        ([Types.STRING(), Types.STRING()], ["a", "b"], "by all of its columns"),
        ([Types.DOUBLE(), Types.STRING()], ["a"], "can't be partitioned by fractions"),
        ([Types.FLOAT(), Types.STRING()], ["a"], "can't be partitioned by fractions"),
        ([Types.BIG_DEC(), Types.STRING()], ["a"], "decimal.*, by which a Delta table can't be partitioned"),
        ([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.STRING()], ["a"], "binary, by which a Delta table can"),
    ],
)
def test_partitions_that_lose_rows_are_refused(tmp_path, types, by, said):
    sink = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(Types.ROW_NAMED(["a", "b"], types)).with_partition_by(*by)
    with pytest.raises((ConfigurationError, JobGraphError), match=said):
        written(sink.build(), [])


def test_times_of_day_are_refused_at_the_start(tmp_path):
    row_type = Types.ROW_NAMED(["a", "b"], [Types.SQL_TIME(), Types.STRING()])
    with pytest.raises(ConfigurationError, match=r"has no times of day, as in a\."):
        written(DeltaSink.for_table(str(tmp_path / "t")).with_row_type(row_type).build(), [])
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("place", ["file://{}/sp%20ace", "file:{}/sp%20ace", "{}/sp ace"])
def test_a_path_is_one_folder_however_it_is_written(tmp_path, place):
    row_type = Types.ROW_NAMED(["n"], [Types.LONG()])
    written(DeltaSink.for_table(place.format(tmp_path)).with_row_type(row_type).build(), [Row(n=1)])
    assert read(tmp_path / "sp ace") == [{"n": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["sp ace"]


def test_a_path_that_deltalake_takes_for_another_is_refused(tmp_path):
    with pytest.raises(JobGraphError, match="take %20 in the path of a table for a character"):
        DeltaSink.for_table(f"{tmp_path}/sp%20ace")


def test_nothing_is_staged_where_the_table_is_gone(tmp_path):
    sink = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(Types.ROW_NAMED(["n"], [Types.LONG()])).build()
    one = SinkTestHarness(sink)
    one.open()
    one.process_element(Row(n=1))
    (tmp_path / "t").rename(tmp_path / "moved")
    with pytest.raises(OSError, match="The folder of the table is gone"):
        one.snapshot(1)
    assert not (tmp_path / "t").exists()


def test_decimals_are_as_wide_as_the_column(tmp_path):
    sink = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(Types.ROW_NAMED(["n"], [Types.BIG_DEC()])).build()
    written(sink, [Row(n=Decimal("12345678901234567890.5"))])
    assert read(tmp_path / "t") == [{"n": Decimal("12345678901234567890.5")}]
    with pytest.raises(RecordError, match="A row is no ROW"):
        written(sink, [Row(n=Decimal("123456789012345678901"))], 2)

"""`FileSink` on Spark: each element is in one visible file, whatever dies; and files that were written are read again."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from pystate.common import Encoder, Row, Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy
from pystate.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from pystate.datastream.formats.json import JsonLinesEncoder, JsonLinesFormat
from pystate.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from tests.connectors.file_system.faulty_disk import files, hidden, visible
from tests.engines import on_both_engines, on_micro_batch
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Watched

pytestmark = [needs_proc, pytest.mark.timeout(300)]

OPTIONS = {**RECOVERING, "restart-strategy.fixed-delay.delay": "0 ms"}


def counting(watched, sink, faults):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=2)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        words.process(Count(faults=faults), COUNTED).uid("count").sink_to(sink).uid("sink")
        env.execute("counting")

    return program


@pytest.fixture
def faults(tmp_path):
    made = Faults(tmp_path / "faults")
    yield made
    made.disarm()


@on_both_engines
@pytest.mark.slow
def test_slots_that_die_and_another_parallelism(run_job, tmp_path, faults):
    watched, out = Watched(tmp_path), tmp_path / "out"
    policy = RollingPolicy.default_rolling_policy(rollover_interval=1500, inactivity_interval=1500)
    builder = FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()

    def all_visible():
        return visible(out) == Counter(f"({word},{count})" for word, count in watched.pairs)

    watched.add(2)
    job = run_job(counting(watched, sink, faults), OPTIONS)
    job.wait_for(lambda: out.exists() and visible(out))
    for step in (Step.NOTIFY, Step.FROZEN, Step.ELEMENT):
        faults.arm(step, Action.KILL)
        watched.add(1)
        job.wait_for(lambda step=step: faults.struck(step))
        job.wait_for(all_visible)
    watched.add(2)
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    assert not visible(out) - Counter(f"({word},{count})" for word, count in watched.pairs)
    watched.add(2)
    options = {**OPTIONS, "parallelism.default": "3", "execution.state-recovery.path": path}
    job = run_job(counting(watched, sink, faults), options)
    job.wait_for(lambda: all_visible() and not hidden(out))
    job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert all_visible()
    assert not hidden(out)


ROW = Types.ROW_NAMED(["id", "name", "tags"], [Types.INT(), Types.STRING(), Types.LIST(Types.STRING())])
ROWS = [Row(id=number, name=f'say "{number}", you', tags=["a", str(number)]) for number in range(20)]


@on_micro_batch
def test_what_is_written_is_read_again(run_job, tmp_path):
    columns = CsvSchema.builder().add_number_column("id", Types.INT()).add_string_column("name")
    schema = columns.add_array_column("tags", "|").set_use_header().build()

    def write():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        rows = env.from_collection(ROWS, ROW)
        base = BucketAssigner.base_path_bucket_assigner()
        for name, builder in (
            ("csv", FileSink.for_bulk_format(str(tmp_path / "csv"), CsvBulkWriters.for_schema(schema))),
            ("json", FileSink.for_row_format(str(tmp_path / "json"), JsonLinesEncoder())),
            ("parquet", FileSink.for_bulk_format(str(tmp_path / "parquet"), ParquetBulkWriters.for_row_type(ROW))),
        ):
            rows.sink_to(builder.with_bucket_assigner(base).build()).uid(name)
        env.execute("write")

    def read():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        records = FileSource.for_record_stream_format
        for name, source in (
            ("csv", records(CsvReaderFormat.for_schema(schema), str(tmp_path / "csv"))),
            ("json", records(JsonLinesFormat.for_row_type(ROW), str(tmp_path / "json"))),
            ("parquet", FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW), str(tmp_path / "parquet"))),
        ):
            lines = env.from_source(source.build(), None, name).map(lambda row: json.dumps(list(row)), Types.STRING())
            sink = FileSink.for_row_format(str(tmp_path / "read" / name), Encoder.simple_string_encoder()).build()
            lines.sink_to(sink).uid(name)
        env.execute("read")

    run_job(write, {}).result()
    assert [row["id"] for file in files(tmp_path / "parquet") for row in pq.ParquetFile(file).read().to_pylist()]
    run_job(read, {}).result()
    expected = Counter(json.dumps(list(row)) for row in ROWS)
    for name in ("csv", "json", "parquet"):
        assert visible(tmp_path / "read" / name) == expected, name
    assert not hidden(tmp_path / "read")

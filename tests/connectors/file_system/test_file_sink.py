"""`FileSink`, as a slot drives it: what a reader sees, when, under which names."""

from __future__ import annotations

import json
import re
from collections import Counter

import fastavro
import pyarrow.parquet as pq
import pytest

from pystate.common.errors import CommitError, JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from pystate.common.type_info import Types
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.file_system import file_writer
from pystate.connectors.file_system.rolling_policy import OnCheckpointRollingPolicy
from pystate.core.file_systems.multipart_files import MultipartFiles
from pystate.core.file_systems.renamed_files import RenamedFiles
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from pystate.datastream.formats.avro import AvroBulkWriters
from pystate.datastream.formats.csv import CsvBulkWriters, CsvSchema
from pystate.datastream.formats.json import JsonLinesEncoder
from pystate.datastream.formats.parquet import ParquetBulkWriters
from pystate.testing import SinkTestHarness
from tests.connectors.file_system.faulty_disk import files, hidden, visible


def lines(root, **options):
    builder = FileSink.for_row_format(str(root), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(options.pop("assigner", BucketAssigner.base_path_bucket_assigner()))
    for name, value in options.items():
        getattr(builder, f"with_{name}")(value)
    return builder.build()


def opened(sink, snapshot=None, **options):
    harness = SinkTestHarness(sink, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


ON_CHECKPOINT = {"rolling_policy": RollingPolicy.on_checkpoint_rolling_policy()}


def test_files_are_hidden_until_their_checkpoint_is_complete(tmp_path):
    with opened(lines(tmp_path, **ON_CHECKPOINT)) as harness:
        harness.process_elements(["a", "b"])
        harness.snapshot(1)
        harness.process_elements(["c"])
        assert not visible(tmp_path)
        assert all(re.fullmatch(r"\.part-\S+-\d\.inprogress\.\S+", path.name) for path in hidden(tmp_path))
        harness.notify_of_completed_checkpoint(1)
        assert visible(tmp_path) == Counter("ab")
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
        assert visible(tmp_path) == Counter("abc")
        assert (len(files(tmp_path)), hidden(tmp_path)) == (2, [])


def test_names_and_buckets_are_the_programs(tmp_path):
    class ByFirst(BucketAssigner):
        def get_bucket_id(self, element, context):
            return f"{element[0]}/x"

    config = OutputFileConfig.builder().with_part_prefix("prefix").with_part_suffix(".ext").build()
    with opened(lines(tmp_path, assigner=ByFirst(), output_file_config=config, **ON_CHECKPOINT)) as harness:
        harness.process_elements(["a1", "b1", "a2"])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert [path.parent.relative_to(tmp_path).as_posix() for path in files(tmp_path)] == ["a/x", "b/x"]
    assert all(re.fullmatch(r"prefix-[0-9a-f]{8}-0-0-[0-9a-f]{8}-\d\.ext", path.name) for path in files(tmp_path))


@pytest.mark.parametrize("bucket", ["..", "a//b", "/a", "a/../../b", None, "a\0"])
def test_a_bucket_is_below_the_base_path(tmp_path, bucket):
    class Odd(BucketAssigner):
        def get_bucket_id(self, element, context):
            return bucket

    with opened(lines(tmp_path, assigner=Odd())) as harness, pytest.raises(Exception, match="A bucket is a folder"):
        harness.process_element("a")


def test_by_default_buckets_are_hours(tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    with opened(sink) as harness:
        harness.set_processing_time(1_700_000_000_000)
        harness.process_element("a")
    assert re.fullmatch(r"2023-11-1[45]--\d\d", next(tmp_path.iterdir()).name)


@pytest.mark.parametrize("attempt", [0, 1])  # of another job that starts from it as from a savepoint, and of the same one
def test_a_file_that_stays_open_is_gone_on_with(tmp_path, attempt):
    sink = lines(tmp_path)
    with opened(sink) as harness:
        harness.process_elements(["a"])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
        harness.process_elements(["b"])
        snapshot = harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
        assert not visible(tmp_path)
        harness.process_elements(["lost"])
    with opened(sink, snapshot, attempt=attempt) as harness:
        harness.process_elements(["c"])
        harness.end_input()
        harness.snapshot(3)
        harness.notify_of_completed_checkpoint(3)
    assert files(tmp_path)[0].read_text() == "a\nb\nc\n"
    assert (len(files(tmp_path)), hidden(tmp_path)) == (1, [])


def test_the_end_of_the_input_shows_all_of_a_job_without_checkpoints(tmp_path):
    with opened(lines(tmp_path)) as harness:
        harness.process_elements(["a"])
        harness.end_input()
        harness.end_epoch()
        assert not visible(tmp_path)
        harness.commit_rest()
    assert (visible(tmp_path), hidden(tmp_path)) == (Counter("a"), [])


def test_files_that_no_checkpoint_knows_of_go_with_their_writer(tmp_path):
    with opened(lines(tmp_path, rolling_policy=RollingPolicy.default_rolling_policy(part_size=1))) as harness:
        harness.process_elements(["a", "b"])
        harness.end_epoch()
        assert len(hidden(tmp_path)) == 2
    assert not hidden(tmp_path)


@pytest.mark.parametrize(
    ("policy", "moments", "count"),
    [
        (RollingPolicy.default_rolling_policy(part_size=3), [0, 0, 0, 0], 2),
        (RollingPolicy.default_rolling_policy(rollover_interval=100, inactivity_interval=1000), [0, 50, 101, 150], 2),
        (RollingPolicy.default_rolling_policy(rollover_interval=1000, inactivity_interval=30), [0, 20, 40, 71], 2),
        (RollingPolicy.on_checkpoint_rolling_policy(), [0, 1000, 2000, 10**9], 1),
    ],
)
def test_files_end_by_size_and_by_the_clock(tmp_path, monkeypatch, policy, moments, count):
    clock = [0]
    monkeypatch.setattr(file_writer.FileWriter.__init__, "__defaults__", (file_writer.recoverable_files, lambda: clock[0]))
    with opened(lines(tmp_path, rolling_policy=policy, bucket_check_interval=1)) as harness:
        for moment in moments:
            clock[0] = moment
            harness.process_element("a")
        harness.end_input()
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert (visible(tmp_path), len(files(tmp_path))) == (Counter({"a": 4}), count)


def test_an_idle_file_ends_at_a_checkpoint(tmp_path, monkeypatch):
    clock = [0]
    monkeypatch.setattr(file_writer.FileWriter.__init__, "__defaults__", (file_writer.recoverable_files, lambda: clock[0]))
    with opened(lines(tmp_path)) as harness:
        harness.process_element("a")
        for number, moment in enumerate((59_999, 60_000), 1):
            clock[0] = moment
            harness.snapshot(number)
            harness.notify_of_completed_checkpoint(number)
            assert bool(visible(tmp_path)) is (number == 2)


def test_several_writers_files_of_one_bucket_come_together_in_one_subtask(tmp_path):
    sink, snapshots = lines(tmp_path), []
    for subtask in range(3):
        with opened(sink, parallelism=3, subtask_index=subtask) as harness:
            harness.process_elements([str(subtask), str(subtask)])
            snapshots.append(harness.snapshot(1))
    (share,) = SinkTestHarness.repartition(snapshots, 3, 1, 128)
    with opened(sink, share, attempt=1) as harness:
        harness.process_element("more")
        harness.end_input()
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    assert (visible(tmp_path), len(files(tmp_path))) == (Counter({"0": 2, "1": 2, "2": 2, "more": 1}), 3)
    assert not hidden(tmp_path)


def test_another_file_of_the_name_is_not_taken_for_ours(tmp_path):
    sink = lines(tmp_path, **ON_CHECKPOINT)
    with opened(sink) as harness:
        harness.process_element("a")
        snapshot = harness.snapshot(1)
        (temporary,) = hidden(tmp_path)
        final = tmp_path / temporary.name[1:].partition(".inprogress.")[0]
        final.write_text("b\n")  # as long as ours
        with pytest.raises(CommitError, match="is another file"):
            harness.notify_of_completed_checkpoint(1)
    assert final.read_text() == "b\n"
    final.unlink()
    temporary.unlink()
    with pytest.raises(CommitError, match="is not there instead of 2 bytes"):
        opened(sink, snapshot)


def test_a_checkpoint_whose_file_was_made_visible_later_is_gone_on_with_after_it(tmp_path):
    sink = lines(tmp_path)
    with opened(sink) as harness:
        harness.process_element("a")
        older = harness.snapshot(1)
        harness.end_input()
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    with opened(sink, older, attempt=1) as harness:  # somebody goes back to it
        harness.end_input()
        harness.snapshot(3)
        harness.notify_of_completed_checkpoint(3)
    assert visible(tmp_path) == Counter("a")
    for path in files(tmp_path):
        path.unlink()
    with pytest.raises(CommitError, match="can't be gone on with") as refused:
        opened(sink, older, attempt=2)
    assert "deleted" in str(refused.value.hint)


def test_another_base_path_takes_the_files_along_and_leaves_the_old_ones(tmp_path):
    with opened(lines(tmp_path / "old")) as harness:
        harness.process_element("a")
        snapshot = harness.snapshot(1)
    with opened(lines(tmp_path / "new"), snapshot) as harness:
        harness.process_element("b")
        harness.end_input()
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    assert visible(tmp_path / "new") == Counter("ab")
    assert (visible(tmp_path / "old"), len(hidden(tmp_path / "old"))) == (Counter(), 1)


def test_texts_are_those_of_java(tmp_path):
    kinds = Types.TUPLE([Types.STRING(), Types.INT()])
    row = Types.ROW_NAMED(["word", "many"], [Types.STRING(), Types.BOOLEAN()])
    for type_info, element, text in (
        (kinds, ("a", 1), "(a,1)"),
        (row, Row(word="a", many=True), "+I[a, true]"),
        (Types.DOUBLE(), 1e10, "1.0E10"),
        (None, ("a", 1), "('a', 1)"),
    ):
        root = tmp_path / text
        sink = lines(root).for_elements_of(type_info)
        with opened(sink) as harness:
            harness.process_element(element)
            harness.end_input()
            harness.commit_rest()
        assert visible(root) == Counter([text])


def written(sink, *elements):
    with opened(sink) as harness:
        harness.process_elements(elements)
        harness.end_input()
        harness.commit_rest()


ROW = Types.ROW_NAMED(["id", "name", "tags"], [Types.INT(), Types.STRING(), Types.LIST(Types.STRING())])
ROWS = [Row(id=1, name='say "hi", you', tags=["a", "b"]), (2, None, []), Row(id=3, name="ä\n", tags=None)]


def test_parquet_files_have_the_declared_columns(tmp_path):
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ROW)).build()
    with opened(sink) as harness:
        harness.process_elements(ROWS)
        harness.snapshot(1)
        harness.process_elements([(4, "x", ["y"])] * 10_000)
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    rows = [row for file in files(tmp_path) for row in pq.ParquetFile(file).read().to_pylist()]
    assert len(files(tmp_path)) == 2
    assert [row for row in rows if row["id"] < 4] == [
        {"id": 1, "name": 'say "hi", you', "tags": ["a", "b"]},
        {"id": 2, "name": None, "tags": []},
        {"id": 3, "name": "ä\n", "tags": None},
    ]
    assert len(rows) == 10_003


def test_files_of_avro_have_the_schema_and_blocks_of_what_was_written(tmp_path):
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    sink = FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record(schema, "deflate")).build()
    with opened(sink) as harness:
        harness.process_elements([Row(id=1, name="ä"), {"id": 2, "name": None}, (3, "c")])
        harness.snapshot(1)
        harness.process_elements([(4, "x" * 20)] * 10_000)
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    read = [record for file in files(tmp_path) for record in fastavro.reader(file.open("rb"))]
    assert len(files(tmp_path)) == 2
    assert sorted(record["id"] for record in read) == [1, 2, 3] + [4] * 10_000
    assert [record["name"] for record in read if record["id"] < 4] == ["ä", None, "c"]


def test_a_parquet_row_that_is_none_has_columns_of_nothing(tmp_path):
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ROW)).build()
    written(sink, ROWS[1], None)
    (file,) = files(tmp_path)
    assert pq.ParquetFile(file).read().to_pylist()[1] == {"id": None, "name": None, "tags": None}


@pytest.mark.parametrize("element", [("x", "y", []), (2**40, "y", []), (1, "y"), "text"])
def test_a_row_that_does_not_fit_fails(tmp_path, element):
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ROW)).build()
    with pytest.raises(Exception, match="is no ROW") as failed:
        written(sink, element)
    assert isinstance(failed.value, RecordError) or isinstance(failed.value.__cause__, RecordError)


def test_csv_files_have_headers_quotes_and_lists(tmp_path):
    schema = CsvSchema.builder().add_number_column("id", Types.INT()).add_string_column("name").add_array_column("tags")
    sink = FileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(schema.set_use_header().build())).build()
    written(sink, *ROWS)
    (file,) = files(tmp_path)
    assert file.read_text() == 'id,name,tags\n1,"say ""hi"", you",a;b\n2,,\n3,"ä\n",\n'


@pytest.mark.parametrize(("null", "lines"), [("", '1,a\n,\n3,"b,c"\n'), ("NULL", '1,a\nNULL,NULL\n3,"b,c"\n')])
def test_csv_rows_of_texts_and_numbers_only_have_the_schemas_null(tmp_path, null, lines):
    schema = CsvSchema.builder().add_number_column("id", Types.INT()).add_string_column("name").set_null_value(null).build()
    written(
        FileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(schema)).build(),
        (1, "a"),
        (None, None),
        (3, "b,c"),
    )
    (file,) = files(tmp_path)
    assert file.read_text() == lines


def test_a_policy_of_ones_own_is_asked_for_each_element(tmp_path):
    class ByElement(OnCheckpointRollingPolicy):
        def should_roll_on_event(self, part_file_state, element):
            return element == "new" or part_file_state.size > 4

    written(lines(tmp_path, rolling_policy=ByElement()), "a", "new", "b", "c", "d")
    assert sorted(file.read_text() for file in files(tmp_path)) == ["a\n", "c\nd\n", "new\nb\n"]


BY_TWO = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()


def compacting(root, compactor, strategy=BY_TWO):
    builder = FileSink.for_row_format(str(root), Encoder.simple_string_encoder())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).enable_compact(strategy, compactor)


def step(harness, number, *elements):
    harness.process_elements(elements)
    snapshot = harness.snapshot(number)
    harness.notify_of_completed_checkpoint(number)
    return snapshot


def texts(root):
    return sorted(file.read_text() for file in files(root))


def test_files_wait_and_become_one(tmp_path):
    with opened(compacting(tmp_path, FileCompactor.concat_file_compactor(b"--\n")).build()) as harness:
        step(harness, 1, "a", "b")
        assert (texts(tmp_path), len(hidden(tmp_path))) == ([], 1)
        step(harness, 2, "c")
        assert (texts(tmp_path), hidden(tmp_path)) == (["a\nb\n--\nc\n"], [])
        step(harness, 3, "d")
        harness.end_input()
        step(harness, 4)
    assert texts(tmp_path) == ["a\nb\n--\nc\n", "d\n"]
    assert hidden(tmp_path) == []
    assert [file.name.startswith("compacted-part-") for file in files(tmp_path)] == [True, False]


def test_files_are_compacted_by_their_size_or_appear_together(tmp_path):
    by_size = FileCompactStrategy.builder().set_size_threshold(5).set_num_compact_threads(2).build()
    with opened(compacting(tmp_path, FileCompactor.identical_file_compactor(), by_size).build()) as harness:
        step(harness, 1, "a")
        step(harness, 2, "b")
        assert texts(tmp_path) == []
        step(harness, 3, "c")
    assert texts(tmp_path) == ["a\n", "b\n", "c\n"]


def test_a_checkpoint_that_fails_after_a_compaction_loses_nothing(tmp_path):
    sink = compacting(tmp_path, FileCompactor.concat_file_compactor()).build()
    with opened(sink) as harness:
        kept = step(harness, 1, "a")
        harness.process_element("b")
        harness.snapshot(2)  # nobody hears of it
    with opened(sink, kept, attempt=1) as harness:
        assert texts(tmp_path) == []
        step(harness, 2, "b")
        step(harness, 3, "c")
        step(harness, 4, "d")
    assert texts(tmp_path) == ["a\nb\nc\n"]
    assert len(hidden(tmp_path)) == 1, "the last one waits"


def test_where_hidden_files_can_not_be_read_compaction_is_refused(tmp_path, monkeypatch):
    assert not MultipartFiles.readable
    monkeypatch.setattr(RenamedFiles, "readable", False)
    with pytest.raises(JobGraphError, match="can't be compacted there"):
        opened(compacting(tmp_path, FileCompactor.concat_file_compactor()).build())


def test_files_of_ones_own_format_that_wait_are_not_gone_on_with(tmp_path):
    class Numbered(BulkWriter):
        def __init__(self, stream):
            self.stream, self.count = stream, 0
            stream.write(b"begin ")

        def add_element(self, element):
            self.count += 1

        def flush(self):
            """Nothing is held."""

        def finish(self):
            self.stream.write(f"{self.count} end\n".encode())

    class Factory(BulkWriterFactory):
        def create(self, stream):
            return Numbered(stream)

    builder = FileSink.for_bulk_format(str(tmp_path), Factory())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.enable_compact(BY_TWO, FileCompactor.concat_file_compactor())
    with opened(builder.build()) as harness:
        kept = step(harness, 1, "a", "b")
    with opened(builder.disable_compact().build(), kept, attempt=1) as harness:
        step(harness, 2, "c")
    assert texts(tmp_path) == ["begin 1 end\n", "begin 2 end\n"]
    assert hidden(tmp_path) == []


def test_json_lines_are_objects(tmp_path):
    written(FileSink.for_row_format(str(tmp_path), JsonLinesEncoder()).build(), ROWS[0], {"a": [1, None]}, (1, b"\0"))
    (file,) = files(tmp_path)
    assert file.read_text() == '{"id":1,"name":"say \\"hi\\", you","tags":["a","b"]}\n{"a":[1,null]}\n[1,"AA=="]\n'


def test_a_programs_own_bulk_writer_has_a_file_to_itself(tmp_path):
    class Sorted(BulkWriter):
        def __init__(self, stream):
            self.stream, self.held = stream, []

        def add_element(self, element):
            self.held.append(element)

        def flush(self):
            pass

        def finish(self):
            assert self.stream.tell() == 0
            self.stream.write("\n".join(sorted(self.held)).encode())

    class Factory(BulkWriterFactory):
        def create(self, stream):
            return Sorted(stream)

    written(FileSink.for_bulk_format(str(tmp_path), Factory()).build(), "b", "c", "a")
    assert files(tmp_path)[0].read_text() == "a\nb\nc"


def test_what_builders_refuse(tmp_path):
    row = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    bulk = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ROW))
    avro = FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record('"long"'))
    for call, match in (
        (lambda: FileSink.for_row_format("", Encoder.simple_string_encoder()), "base path"),
        (lambda: FileSink.for_row_format("x", "y"), "takes an Encoder"),
        (lambda: FileSink.for_bulk_format("x", Encoder.simple_string_encoder()), "takes a BulkWriterFactory"),
        (lambda: bulk.with_rolling_policy(RollingPolicy.default_rolling_policy()), "can't stay open over a checkpoint"),
        (lambda: row.with_rolling_policy("x"), "takes a RollingPolicy"),
        (lambda: row.with_bucket_assigner(None), "takes a BucketAssigner"),
        (lambda: row.with_bucket_check_interval(0), "milliseconds"),
        (lambda: row.enable_compact(None, None), "takes a FileCompactStrategy"),
        (lambda: bulk.enable_compact(BY_TWO, FileCompactor.concat_file_compactor()), "can't stand one after the other"),
        (lambda: avro.enable_compact(BY_TWO, FileCompactor.concat_file_compactor()), "can't stand one after the other"),
        (lambda: FileCompactStrategy.builder().build(), "needs to know when"),
        (lambda: FileCompactStrategy.builder().set_size_threshold(0), "above 0"),
        (lambda: OutputFileConfig("_part", ""), "readers skip"),
        (lambda: OutputFileConfig("a/b", ""), "name of a file"),
        (lambda: RollingPolicy.default_rolling_policy(part_size=0), "above 0"),
        (lambda: ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["a"], [Types.BIG_INT()])), "has no"),
        (lambda: ParquetBulkWriters.for_row_type(Types.STRING()), "named ROW"),
        (lambda: CsvSchema.builder().build(), "at least one column"),
        (lambda: CsvSchema.builder().add_number_column("a", Types.STRING()), "numbers"),
        (lambda: CsvSchema.builder().set_skip_first_data_row(), "header"),
    ):
        with pytest.raises(JobGraphError, match=match):
            call()


def test_it_says_its_guarantee_and_has_its_older_name(tmp_path):
    sink = lines(tmp_path)
    assert (sink.delivery_guarantee, sink.guarantee_reason) == (
        DeliveryGuarantee.EXACTLY_ONCE,
        "files appear when a checkpoint completes",
    )
    older = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    written(older.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build(), "a")
    assert len(files(tmp_path)) == 1


def test_a_sink_hears_its_streams_type_and_stays_as_it_is_for_another_stream(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    built = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    typed = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])).add_sink(built)
    plain = env.from_collection([("a", 1)]).sink_to(built)
    for ending in (typed, plain):
        written(ending._transformation.function.sink, ("a", 1))
    assert visible(tmp_path) == Counter(["(a,1)", "('a', 1)"])

"""Sources in slots are told where Spark was with them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle

from pystate.common import Types
from pystate.common.errors import RestoreError
from pystate.connectors.file_system.formats.split_format import TextLines
from pystate.connectors.file_system.split_file_source import SplitFileSource
from pystate.connectors.generated.collection_source import CollectionSource
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.kafka.source.split_source import KafkaSplitSource
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.runtime.engines.micro_batch.driver.source_restore import SourceRestore
from pystate.runtime.engines.micro_batch.driver.spark_positions import go_on_after_spark, take_over_from_spark
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource, pack_archive
from pystate.runtime.execution.sources_in_slots import sources_in_slots
from pystate.runtime.plan.planner import JobPlanner
from tests.connectors.kafka.source.fake_consumer import settings

ELEMENTS = ["a", "b", "c", "d"]


def snapshot_of(*sources, **logs):
    """Return a snapshot after batch 3; a source is uid, part, offset."""
    files = {
        **logs,
        "offsets/3": "\n".join(["v1", "{}", *(offset for _, _, offset in sources)]).encode(),
        "pystate-sources": json.dumps([[uid, part, log] for log, (uid, part, _) in enumerate(sources)]).encode(),
    }
    position = SimpleNamespace(epoch=3, files=None)
    location = SimpleNamespace(read_whole=lambda handle: pack_archive(files))
    return SimpleNamespace(metadata=SimpleNamespace(source_position=position, job_id="another"), location=location)


def plan_of(**sources):
    tasks = [
        SimpleNamespace(uid=uid, head=SimpleNamespace(function=SourceOperator(source))) for uid, source in sources.items()
    ]
    return SimpleNamespace(own_sources=tasks)


@pytest.fixture
def letters():
    return CollectionSource(ELEMENTS, Types.STRING(), "letters")


def begin(source):
    given = []
    context = SimpleNamespace(assign_split=lambda split, subtask: given.append(split.index))
    source.create_enumerator(context).handle_split_request(0, None)
    return given[0]


def test_a_collection_begins_after_what_spark_has_read_and_anew_without_a_snapshot(letters):
    offset = json.dumps(letters.offset(3))
    go_on_after_spark(plan_of(letters=letters), snapshot_of(("letters", 0, offset)), allow_non_restored=False)
    assert begin(letters) == 3
    go_on_after_spark(plan_of(letters=letters), snapshot_of(("letters", 0, "-")), allow_non_restored=False)
    assert begin(letters) == 0
    go_on_after_spark(plan_of(letters=letters), snapshot_of(("letters", 0, offset)), allow_non_restored=False)
    go_on_after_spark(plan_of(letters=letters), None, allow_non_restored=False)
    assert begin(letters) == 0


def test_another_collection_is_refused(letters):
    offset = json.dumps({"index": 2, "checksum": "no"})
    with pytest.raises(RestoreError, match="not those that were read"):
        go_on_after_spark(plan_of(letters=letters), snapshot_of(("letters", 0, offset)), allow_non_restored=False)


def test_a_source_that_the_job_has_no_more_is_refused_unless_it_may_be_left(letters):
    snapshot = snapshot_of(("gone", 0, "7"))
    with pytest.raises(RestoreError, match="no source 'gone'"):
        go_on_after_spark(plan_of(letters=letters), snapshot, allow_non_restored=False)
    go_on_after_spark(plan_of(letters=letters), snapshot, allow_non_restored=True)


def test_a_source_that_cannot_go_on_after_spark_is_refused(letters):
    numbers = NumberSequenceSource(1, 9)
    with pytest.raises(RestoreError, match="'numbers' was read by Spark"):
        go_on_after_spark(plan_of(numbers=numbers), snapshot_of(("numbers", 0, "7")), allow_non_restored=True)
    two = snapshot_of(("letters", 0, "{}"), ("letters", 1, "{}"))
    with pytest.raises(RestoreError, match="'letters' was read by Spark"):
        go_on_after_spark(plan_of(letters=letters), two, allow_non_restored=False)


def test_kafka_begins_at_sparks_offsets():
    source = KafkaSplitSource(settings(timed=True))
    offset = json.dumps({"words": {"0": 3, "1": 4}})
    go_on_after_spark(plan_of(words=source), snapshot_of(("words", 0, offset)), allow_non_restored=False)
    assert source._begin == {("words", 0): 3, ("words", 1): 4}
    go_on_after_spark(plan_of(words=source), None, allow_non_restored=False)
    assert source._begin is None


def test_files_that_spark_has_read_go_on_in_slots_beside_a_stream_that_spark_reads_on(tmp_path):
    for name in "abc":
        (tmp_path / name).touch()
    log = f'v1\n{{"path":"file://{tmp_path}/a","timestamp":1,"batchId":0}}'.encode()
    snapshot = snapshot_of(
        ("files", 0, '{"logOffset":0}'), ("frame", 0, "7"), **{"sources/0/0": log, "sources/1/0": b"theirs"}
    )
    source = SplitFileSource((str(tmp_path),), None, TextLines(), "files")
    plan = plan_of(files=source)
    plan.sources = []
    taken = take_over_from_spark(plan, snapshot)
    assert taken == {"files"}
    given = []
    enumerator = source.create_enumerator(
        SimpleNamespace(assign_split=lambda split, subtask: given.append(split.split_id()))
    )
    enumerator.start()
    for subtask in range(2):
        enumerator.handle_split_request(subtask, None)
    assert sorted(given) == [f"file:{tmp_path}/b", f"file:{tmp_path}/c"]

    frame = SparkSource("frame", 0, 0)
    restored = SourceRestore(plan, [frame], allow_non_restored=False, taken_over=taken).from_snapshot(snapshot, 5, "job")
    assert (restored.batch_id, restored.spark_files["offsets/3"]) == (3, b"v1\n{}\n7")
    assert restored.spark_files["sources/0/0"] == b"theirs"
    alone = SourceRestore(plan, [], allow_non_restored=True, taken_over=taken).from_snapshot(snapshot, 5, "job")
    assert (alone.batch_id, alone.epoch, alone.spark_files) == (-1, 5, {})
    with pytest.raises(RestoreError, match="no source 'files'"):
        SourceRestore(plan, [frame], allow_non_restored=False).from_snapshot(snapshot, 5, "job")


def test_the_slots_get_a_source_that_goes_on_where_spark_was_and_not_as_it_was_made(tmp_path):
    for name in "abc":
        (tmp_path / name).touch()
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    env.from_source(files, None, "files").uid("files").print()
    graph = env._graph()
    uids = graph.assign_uids(auto=True)
    sources_in_slots(graph, uids, None)
    plan = JobPlanner(graph, uids, 1).plan([])
    log = f'v1\n{{"path":"file://{tmp_path}/a","timestamp":1,"batchId":0}}'.encode()

    take_over_from_spark(plan, snapshot_of(("files", 0, '{"logOffset":0}'), **{"sources/0/0": log}))

    (task,) = plan.own_sources
    sent = cloudpickle.loads(cloudpickle.dumps(task.head)).function.source
    given = []
    context = SimpleNamespace(assign_split=lambda split, subtask: given.append(split.file.uri), signal_no_more_splits=print)
    enumerator = sent.create_enumerator(context)
    enumerator.start()
    for _ in range(3):
        enumerator.handle_split_request(0, None)
    assert [uri[-1] for uri in given] == ["b", "c"]


def test_automatic_uids_are_the_same_at_each_planning_of_a_program(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    env.from_source(files, None, "files").key_by(lambda word: word).reduce(lambda one, other: one).print()
    graph = env._graph()
    graph.batch = True
    found = []
    for _ in range(2):  # as `JobMaster` plans again where something outside has not answered
        copy = graph.copy()
        uids = copy.assign_uids(auto=True)
        assert copy.batch
        sources_in_slots(copy, uids, None)
        found.append([uids[id(step)] for step in copy.transformations() if id(step) in uids])

    assert found[0] == found[1]

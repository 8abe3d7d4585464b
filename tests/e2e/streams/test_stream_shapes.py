"""Jobs on real Spark whose graph is no line: unions, edges over levels, two inputs, broadcast, a parallelism per step."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pystate.common import Duration, Types
from pystate.common.errors import JobCancelledError, RestoreError
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    SinkFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.formats.parquet import ParquetColumnarRowInputFormat
from tests.engines import on_both_engines, slowly_on_real_time
from tests.faults.workload import COUNTED, Count, Sink, Watched

WORD = Types.STRING()


def same(element):
    return element


def first_of(pair):
    return pair[0]


def watch(env, watched, uid):
    return env.from_source(FileSource(str(watched.folder), monitor_interval_ms=1000), None, uid).uid(uid)


def cancel_with_savepoint(job, tmp_path):
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    return path


@pytest.mark.slow
@on_both_engines
def test_sources_in_another_order_one_more_and_other_parallelisms_lose_and_double_nothing(run_job, engine, tmp_path):
    folders = {name: Watched(tmp_path / name, seed) for seed, name in enumerate(("left", "right", "new"))}
    sink = Sink()

    def program(names, count_parallelism):
        def run():
            env = StreamExecutionEnvironment.get_execution_environment()
            first, *others = [watch(env, folders[name], name) for name in names]
            counted = first.union(*others).key_by(same, WORD).process(Count(), COUNTED).uid("count")
            counted.set_parallelism(count_parallelism)
            again = counted.map(same, COUNTED).uid("again").key_by(first_of, WORD).process(Count(), COUNTED)
            again.uid("again-count").for_each_batch(sink)
            env.execute("two sources")

        return run

    def expected():
        words = sum((folder.words for folder in folders.values()), Counter())
        return words, Counter((word, n) for word, count in words.items() for n in range(1, count + 1))

    folders["left"].add(3)
    folders["right"].add(3)
    job = run_job(program(["left", "right"], 3))
    job.wait_for(lambda: sink.rows.total() == 240)
    assert {vertex["uid"]: vertex["parallelism"] for vertex in job.status["vertices"]} == {
        "left": 2,
        "right": 2,
        "count": 3,
        "again": 2,
        "again-count": 2,
    }
    path = cancel_with_savepoint(job, tmp_path)
    reader = SnapshotReader(path)
    assert {"left", "right"} < {operator.uid for operator in reader.metadata.operators}
    folders["right"].add(1)
    folders["new"].add(2)
    options = {"parallelism.default": "3", "execution.state-recovery.path": path}
    resumed = run_job(program(["new", "right", "left"], 1), options)
    resumed.wait_for(lambda: sink.rows.total() >= 360)
    words, pairs = expected()
    assert sink.rows == pairs
    final = SnapshotReader(cancel_with_savepoint(resumed, tmp_path))
    assert dict(final.keyed_entries("count", "count")) == dict(words)
    assert dict(final.keyed_entries("again-count", "count")) == dict(words)

    lacking = run_job(program(["new", "right"], 1), {"execution.state-recovery.path": path})
    with pytest.raises(RestoreError, match="source 'left'|operator left "):
        lacking.result()


@slowly_on_real_time
def test_a_source_that_is_united_with_its_own_counts_is_one_cut(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = watch(env, watched, "words").set_parallelism(1)
        counted = words.key_by(same, WORD).process(Count(), COUNTED).uid("first").map(first_of, WORD)
        words.union(counted).key_by(same, WORD).process(Count(), COUNTED).uid("second").for_each_batch(sink)
        env.execute("diamond")

    watched.add(4)
    job = run_job(run)
    job.wait_for(lambda: sink.rows.total() == 320)
    path = cancel_with_savepoint(job, tmp_path)
    watched.add(2)
    resumed = run_job(run, {"parallelism.default": "3", "execution.state-recovery.path": path})
    resumed.wait_for(lambda: sink.rows.total() >= 480)
    final = SnapshotReader(cancel_with_savepoint(resumed, tmp_path))
    assert dict(final.keyed_entries("first", "count")) == dict(watched.words)
    assert dict(final.keyed_entries("second", "count")) == {word: 2 * count for word, count in watched.words.items()}
    assert sink.rows == Counter((word, n) for word, count in watched.words.items() for n in range(1, 2 * count + 1))


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class CountRules(KeyedBroadcastProcessFunction):
    """Emits with each element the rules seen so far."""

    def process_element(self, value, ctx):
        yield value, len(list(ctx.get_broadcast_state(RULES).keys()))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value, 1)


class Meet(KeyedCoProcessFunction):
    """Emits how many elements of both streams a key has had."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        yield ctx.get_current_key(), self.seen.value()

    def process_element2(self, value, ctx):
        self.seen.update((self.seen.value() or 0) + 1000)
        yield ctx.get_current_key(), self.seen.value()


class Append(SinkFunction):
    def __init__(self, path):
        self.path = path

    def invoke(self, value, context):
        with self.path.open("a") as file:
            file.write(f"{value}\n")


@pytest.mark.slow
def test_a_bounded_job_of_collections_with_broadcast_state_connected_streams_and_reduce(run_job, tmp_path):
    matched, met, reduced, everywhere = Sink(), Sink(), Sink(), Sink()
    written = tmp_path / "written"
    data, rules = [f"user-{n % 40}" for n in range(400)], [f"rule-{n}" for n in range(7)]

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        users, texts = env.from_collection(data, WORD).uid("data"), env.from_collection(rules, WORD).uid("rules")
        rule_stream = texts.broadcast(RULES)
        users.key_by(same, WORD).connect(rule_stream).process(CountRules(), COUNTED).uid("match").for_each_batch(matched)
        both = users.connect(texts.union(users)).key_by(same, same, WORD).process(Meet(), COUNTED).uid("meet")
        both.for_each_batch(met)
        ones = users.map(lambda user: (user, 1), COUNTED)
        ones.key_by(first_of, WORD).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sum").for_each_batch(reduced)
        texts.rebalance().add_sink(Append(written)).uid("append")
        texts.broadcast().map(lambda text: (text, 1), COUNTED).uid("everywhere").set_parallelism(3).for_each_batch(
            everywhere
        )
        env.execute("collections")

    job = run_job(run)
    job.result()
    assert job.status["state"] == "FINISHED"
    assert matched.rows == Counter(dict.fromkeys(((user, 7) for user in set(data)), 10)), "all rules before any element"
    last = {}
    for key, seen in met.rows:
        last[key] = max(last.get(key, 0), seen)
    assert last == {**dict.fromkeys(data, 10 + 10_000), **dict.fromkeys(rules, 1000)}
    assert reduced.rows == Counter((user, n) for user in set(data) for n in range(1, 11))
    assert Counter(written.read_text().split()) == Counter(rules)
    assert everywhere.rows == Counter({(rule, 1): 3 for rule in rules})


class Numbered(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield str(value["word"]), value["n"]


@pytest.mark.slow
def test_a_collection_beside_an_endless_source_is_read_once_over_a_restore(run_job, tmp_path):
    folder, sink = tmp_path / "parquet", Sink()
    folder.mkdir()
    row_type = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])

    def write(name, words):
        table = pa.table({"n": range(len(words)), "word": words, "unused": [0.5] * len(words)})
        pq.write_table(table, tmp_path / name)
        (tmp_path / name).rename(folder / name)

    def program(elements):
        def run():
            env = StreamExecutionEnvironment.get_execution_environment()
            source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type), str(folder))
            rows = env.from_source(source.monitor_continuously(Duration.of_seconds(1)).build(), None, "rows").uid("rows")
            numbered = rows.key_by("word").process(Numbered(), COUNTED).uid("numbered")
            collected = env.from_collection(elements).uid("collection").map(lambda pair: (pair[0], pair[1]), COUNTED)
            collected.union(numbered).for_each_batch(sink)
            env.execute("collection and files")

        return run

    elements = [("first", {"x"}, 1), ("second", {"y", "z"}, 2)]
    pairs = [(name, number, parts) for name, parts, number in elements]
    write("1.parquet", ["a", "b", "c"])
    job = run_job(program(pairs))
    job.wait_for(lambda: sink.rows.total() == 5)
    path = cancel_with_savepoint(job, tmp_path)
    write("2.parquet", ["d", "e"])
    resumed = run_job(program([*pairs, ("third", 3, set())]), {"execution.state-recovery.path": path})
    resumed.wait_for(lambda: sink.rows.total() >= 8)
    second = cancel_with_savepoint(resumed, tmp_path)
    expected = [("first", 1), ("second", 2), ("third", 3), ("a", 0), ("b", 1), ("c", 2), ("d", 0), ("e", 1)]
    assert sink.rows == Counter(expected)
    for changed, reason in [(pairs, "3 elements of the collection were read; now it has 2"), ([("x", 1)] * 3, "not those")]:
        refused = run_job(program(changed), {"execution.state-recovery.path": second})
        with pytest.raises(RestoreError, match=reason):
            refused.result()

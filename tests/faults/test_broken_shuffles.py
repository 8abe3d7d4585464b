"""Rows that end because Spark's side of a Python stage broke: an epoch is whole, or it does not count."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource
from tests.faults.shuffle_files import Damage, ShuffleFiles
from tests.faults.workload import COUNTED, RECOVERING, Count

pytestmark = pytest.mark.timeout(300)

BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
FILES, ROWS, WIDTH = 24, 150, 2000
"""An epoch: more than lies in the buffers between Spark and a slot; Spark still reads when the first rows are in."""


BIG = 100_000
"""Rows of which each of two tasks has more than 1 MiB as its result."""


class Last(KeyedProcessFunction):
    """Keeps the count that has come last."""

    def __init__(self, gate):
        self.gate = gate

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        while self.gate is not None and self.gate.exists():
            self.gate.with_name("entered").touch()
            time.sleep(0.02)
        self.last.update((self.last.value() or 0) + 1)
        yield value


def program(folder, rows, gates):
    def deliver(frame, epoch):
        # such results reach the driver through the block manager, which Spark takes for lost with a shuffle's files
        assert len(frame.sparkSession.range(0, BIG, 1, 2).selectExpr("uuid()").collect()) == BIG
        rows.update(tuple(row) for row in frame.collect())

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_source(FileSource(str(folder), monitor_interval_ms=1000), None, "words")
        counted = words.key_by(lambda word: word, key_type=Types.STRING()).process(Count(gates[0]), COUNTED).uid("count")
        again = counted.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Last(gates[1]), COUNTED).uid("last")
        again.for_each_batch(deliver)
        env.execute("count twice")

    return run


def state_of(path, uid, state):
    return dict(SnapshotReader(path).keyed_entries(uid, state))


@pytest.fixture
def small_batches(spark):
    spark.conf.set(BATCH, "10")
    yield
    spark.conf.unset(BATCH)


@pytest.mark.parametrize(
    ("damage", "level"),
    [
        pytest.param(Damage.DELETED, 1, marks=pytest.mark.slow),
        (Damage.EMPTIED, 1),
        pytest.param(Damage.DELETED, 2, marks=pytest.mark.slow),
        pytest.param(Damage.EMPTIED, 2, marks=pytest.mark.slow),
        pytest.param(Damage.CUT, 1, marks=pytest.mark.slow),
        pytest.param(Damage.CUT, 2, marks=pytest.mark.slow),
        pytest.param(Damage.CORRUPTED, 1, marks=pytest.mark.slow),
        pytest.param(Damage.CORRUPTED, 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("small_batches")
def test_an_epoch_whose_shuffle_files_break_while_it_reads_them_counts_whole(run_job, spark, tmp_path, damage, level):
    words = Counter()
    folder = tmp_path / "watched"
    folder.mkdir()
    source = random.Random(3)
    for number in range(FILES):
        drawn = [f"word-{source.randrange(40)}-".ljust(WIDTH, "x") for _ in range(ROWS)]
        words.update(drawn)
        (folder / f"{number}.txt").write_text("\n".join(drawn))
    gates = [tmp_path / f"gate-{number}" / "closed" for number in (1, 2)]
    gate = gates[level - 1]
    gate.parent.mkdir()
    gate.touch()
    files = ShuffleFiles.of(spark)
    known = set(files.by_shuffle())
    rows = Counter()
    job = run_job(program(folder, rows, gates), RECOVERING)
    job.wait_for(lambda: gate.with_name("entered").exists())
    shuffle = sorted(set(files.by_shuffle()) - known)[level - 1]
    assert files.damage(shuffle, damage) > 1
    gate.unlink()
    job.wait_for(lambda: sum(rows.values()) >= words.total())
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert not [failure for failure in job.status["failures"] if "TaskResultLost" in failure["stack_trace"]]
    assert state_of(path, "count", "count") == words
    assert state_of(path, "last", "last") == words
    assert set(rows) == {(word, n) for word, count in words.items() for n in range(1, count + 1)}


class Held(MapFunction):
    """Gives the line of a row, and waits at each for as long as a file is there."""

    def __init__(self, gate):
        self.gate = gate

    def map(self, value):
        while self.gate.exists():
            self.gate.with_name("entered").touch()
            time.sleep(0.02)
        return value[0]


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_rows_that_a_shuffle_of_the_sources_own_loses_without_an_error_are_missed(run_job, spark, tmp_path):
    """Spark reads an emptied file as one without rows; nothing after it has ever heard of them."""
    folder, gate = tmp_path / "watched", tmp_path / "gate" / "closed"
    folder.mkdir()
    gate.parent.mkdir()
    gate.touch()
    source = random.Random(3)
    vocabulary = [f"word-{number}-{source.randbytes(6000).hex()}" for number in range(40)]
    words = Counter()
    for number in range(12):
        drawn = [source.choice(vocabulary) for _ in range(300)]
        words.update(drawn)
        (folder / f"{number}.txt").write_text("\n".join(drawn))
    epochs = []

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        lines = env.from_data_frame(env.spark.readStream.text(str(folder)).repartition(3, "value"), "lines")
        held = lines.map(Held(gate), Types.STRING())
        counted = held.key_by(lambda word: word, key_type=Types.STRING()).process(Count(), COUNTED).uid("count")
        counted.for_each_batch(lambda frame, epoch: epochs.append(epoch))
        env.execute("a shuffle of its own")

    files = ShuffleFiles.of(spark)
    known = set(files.by_shuffle())
    job = run_job(run, RECOVERING)
    job.wait_for(lambda: gate.with_name("entered").exists())
    assert files.damage(min(set(files.by_shuffle()) - known), Damage.EMPTIED) > 1
    gate.unlink()
    job.wait_for(lambda: epochs)
    assert "the shuffles of the sources' DataFrames have written 3600 rows" in job.status["failures"][0]["message"]
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    assert state_of(path, "count", "count") == words

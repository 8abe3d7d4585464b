"""Jobs on real Spark: restored at the same, a larger and a smaller parallelism; nothing is read twice, nothing skipped."""

import random
import threading
import time
from collections import Counter

import pytest

from pystate.common import Duration, Types
from pystate.common.errors import JobCancelledError, RestoreError
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.runtime.engines.micro_batch.driver.rehearsal import Rehearsal
from tests.engines import MICRO_BATCH, on_both_engines, on_micro_batch, slowly_on_real_time
from tests.waiting import LONGEST_S

COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class Watched:
    """A folder that files of random words are put into, a few at a time."""

    def __init__(self, tmp_path):
        self.folder = tmp_path / "watched"
        self.folder.mkdir()
        self.random = random.Random(7)
        self.words = Counter()
        self.files = 0

    def add(self, files):
        for _ in range(files):
            words = [f"word-{self.random.randrange(50)}" for _ in range(40)]
            self.words.update(words)
            part = self.folder.with_name("part")
            part.write_text("\n".join(words))
            part.rename(self.folder / f"{self.files:04}.txt")
            self.files += 1


class Sink:
    def __init__(self):
        self.rows = Counter()
        self.epochs = []

    def __call__(self, frame, epoch):
        self.epochs.append(epoch)
        self.rows.update(tuple(row) for row in frame.collect())

    @property
    def total(self):
        return sum(self.rows.values())


def program(watched, sink, key, key_type, uid="count", files_per_epoch=3):
    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = (
            FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(watched.folder))
            .monitor_continuously(Duration.of_seconds(1))
            .set_max_files_per_epoch(files_per_epoch)
            .build()
        )
        words = env.from_source(source, None, "words")
        words.key_by(key, key_type=key_type).process(Count(), COUNTED).uid(uid).for_each_batch(sink)
        env.execute("count")

    return run


@slowly_on_real_time
@pytest.mark.parametrize(
    "key_type", [Types.STRING(), pytest.param(None, marks=pytest.mark.slow)], ids=["typed key", "untyped key"]
)
def test_a_job_goes_on_exactly_where_it_was_at_any_parallelism(run_job, tmp_path, key_type, engine):
    watched, sink = Watched(tmp_path), Sink()
    job_program = program(watched, sink, lambda word: word, key_type)
    path = None
    for parallelism in (2, 3, 3, 1):
        watched.add(7)
        options = {"parallelism.default": str(parallelism)}
        if path is not None:
            options["execution.state-recovery.path"] = path
        job = run_job(job_program, options)
        expected = sum(watched.words.values())
        job.wait_for(lambda job=job, expected=expected: sink.total >= expected)
        path = job.savepoint(tmp_path / "savepoints", cancel=True)
        with pytest.raises(JobCancelledError):
            job.result()
    assert sink.rows == Counter((word, n) for word, count in watched.words.items() for n in range(1, count + 1))
    if engine == MICRO_BATCH:
        assert sink.epochs == sorted(set(sink.epochs)), "epoch numbers only grow, over restores too"
    assert dict(SnapshotReader(path).keyed_entries("count", "count")) == dict(watched.words)


@pytest.mark.slow
@on_micro_batch
def test_a_savepoint_in_the_middle_of_a_backlog_cuts_it_exactly(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(40)
    job_program = program(watched, sink, lambda word: word, Types.STRING(), files_per_epoch=2)
    job = run_job(job_program)
    job.wait_running()
    job.wait_for(lambda: sink.total > 0)
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    assert job.status["state"] == "FINISHED"
    cut = sink.total
    assert 0 < cut < 40 * 40
    state = dict(SnapshotReader(path).keyed_entries("count", "count"))
    assert sum(state.values()) == cut, "the savepoint holds what the sink has seen, neither more nor less"
    resumed = run_job(job_program, {"parallelism.default": "3", "execution.state-recovery.path": path})
    resumed.wait_for(lambda: sink.total >= 40 * 40)
    assert sink.rows == Counter((word, n) for word, count in watched.words.items() for n in range(1, count + 1))


@pytest.mark.slow
@on_micro_batch
def test_a_savepoint_right_after_a_resume_waits_for_no_epoch(run_job, tmp_path, monkeypatch):
    rehearsed = threading.Event()
    rehearse = Rehearsal._run

    def slowly(rehearsal):
        rehearse(rehearsal)
        rehearsed.wait(LONGEST_S)

    watched, sink = Watched(tmp_path), Sink()
    watched.add(3)
    job = run_job(program(watched, sink, lambda word: word, Types.STRING()))
    job.wait_for(lambda: sink.total == 3 * 40)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    epochs = len(sink.epochs)
    monkeypatch.setattr(Rehearsal, "_run", slowly)
    resumed = run_job(
        program(watched, sink, lambda word: word, Types.STRING()),
        {"parallelism.default": "3", "execution.state-recovery.path": path},
    )
    resumed.wait_running()
    watched.add(1)
    again = resumed.savepoint(tmp_path / "savepoints")
    assert len(sink.epochs) == epochs, "no epoch has begun"
    assert dict(SnapshotReader(again).keyed_entries("count", "count")) == dict(
        SnapshotReader(path).keyed_entries("count", "count")
    )
    rehearsed.set()
    resumed.wait_for(lambda: sink.total == 4 * 40)
    assert sink.rows == Counter((word, n) for word, count in watched.words.items() for n in range(1, count + 1))


@slowly_on_real_time
def test_a_savepoint_with_an_operator_the_job_does_not_have_is_refused_and_named(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    job = run_job(program(watched, sink, lambda word: word, Types.STRING(), uid="old-name"))
    job.wait_for(lambda: sink.total == 40)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    renamed = program(watched, sink, lambda word: word, Types.STRING(), uid="new-name")
    refused = run_job(renamed, {"execution.state-recovery.path": path})
    with pytest.raises(RestoreError, match="old-name") as error:
        refused.result()
    assert "--allowNonRestoredState" in str(error.value)
    skipping = run_job(
        renamed, {"execution.state-recovery.path": path, "execution.state-recovery.ignore-unclaimed-state": "true"}
    )
    skipping.wait_running()


@slowly_on_real_time
def test_a_key_of_another_type_is_refused_not_lost(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    job = run_job(program(watched, sink, lambda word: word, Types.STRING()))
    job.wait_for(lambda: sink.total == 40)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    changed = run_job(program(watched, sink, len, Types.LONG()), {"execution.state-recovery.path": path})
    with pytest.raises(RestoreError, match="A key type never changes"):
        changed.result()


@pytest.mark.slow
@on_both_engines
def test_two_keyed_steps_in_a_row_are_one_cut(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=3)
        per_word = env.from_source(source, None, "words").key_by(lambda w: w).process(Count(), COUNTED).uid("per-word")
        per_count = per_word.key_by(lambda pair: f"seen {pair[1]} times").process(Count(), COUNTED).uid("per-count")
        per_count.for_each_batch(sink)
        env.execute("two steps")

    watched.add(5)
    job = run_job(run)
    job.wait_for(lambda: sink.total == 200)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    watched.add(5)
    resumed = run_job(run, {"parallelism.default": "3", "execution.state-recovery.path": path})
    resumed.wait_for(lambda: sink.total == 400)
    final = resumed.savepoint(tmp_path / "savepoints")
    reader = SnapshotReader(final)
    assert dict(reader.keyed_entries("per-word", "count")) == dict(watched.words)
    expected = Counter(f"seen {n} times" for count in watched.words.values() for n in range(1, count + 1))
    assert dict(reader.keyed_entries("per-count", "count")) == dict(expected)


@on_micro_batch
def test_the_alignment_of_a_checkpoint_shows_an_upstream_partition_that_was_held_back(run_job, tmp_path):
    watched, sink, gate, fast = Watched(tmp_path), Sink(), tmp_path / "gate", tmp_path / "fast"
    watched.add(1)
    (watched.folder / "slow.txt").write_text("slow")

    def hold_back(word):
        deadline = time.monotonic() + LONGEST_S
        while word == "slow" and not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        if word != "slow":
            fast.touch()
        return word

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_source(FileSource(str(watched.folder), monitor_interval_ms=1000), None, "words")
        held = words.map(hold_back, output_type=Types.STRING())
        held.key_by(lambda w: w).process(Count(), COUNTED).uid("count").for_each_batch(sink)
        env.execute("held back")

    job = run_job(run)  # each of the two files is a partition
    job.wait_running()
    coordinator = job.master.coordinator
    job.wait_for(lambda: "waits_for_epoch" in job.master.coordinator.savepoint_progress())  # an epoch runs
    future = coordinator.trigger_savepoint(str(tmp_path / "savepoints"), hold=False)
    job.wait_for(fast.exists)
    time.sleep(2)  # what the other partition waits
    gate.touch()
    future.result(LONGEST_S)
    (latest,) = coordinator.statistics()["history"]
    assert latest["alignment_duration"] >= 1000
    assert latest["start_delay"] >= 1000


@pytest.mark.slow
@on_both_engines
def test_several_outputs_and_branches_are_one_query_and_one_cut(run_job, tmp_path, engine):
    watched = Watched(tmp_path)
    sinks = per_word, per_length, aside, per_count = Sink(), Sink(), Sink(), Sink()
    seen = tmp_path / "seen"

    def note(word):
        with seen.open("a") as file:
            file.write(f"{word}\n")
        return word

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=3)
        words = env.from_source(source, None, "words").map(note, output_type=Types.STRING())
        counted = words.key_by(lambda word: word).process(Count(), COUNTED).uid("per-word")
        counted.for_each_batch(per_word)
        words.key_by(lambda word: f"length {len(word)}").process(Count(), COUNTED).uid("per-length").for_each_batch(
            per_length
        )
        words.filter(lambda word: word.endswith("7")).for_each_batch(aside)
        counted.key_by(lambda pair: f"seen {pair[1]}").process(Count(), COUNTED).uid("per-count").for_each_batch(per_count)
        env.execute("branches")

    watched.add(6)
    job = run_job(run)
    job.wait_for(lambda: per_word.total == 240 and per_count.total == 240)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    watched.add(6)
    resumed = run_job(run, {"parallelism.default": "3", "execution.state-recovery.path": path})

    def in_step():
        return all(sink.epochs == per_word.epochs for sink in sinks)

    resumed.wait_for(lambda: per_count.total == 480 and (engine != MICRO_BATCH or in_step()))
    final = SnapshotReader(resumed.savepoint(tmp_path / "savepoints"))

    def expected(key):
        counts = Counter()
        for word, count in watched.words.items():
            counts[key(word)] += count
        return counts

    lengths = expected(lambda word: f"length {len(word)}")
    assert per_word.rows == Counter((word, n) for word, count in watched.words.items() for n in range(1, count + 1))
    assert per_length.rows == Counter((key, n) for key, count in lengths.items() for n in range(1, count + 1))
    assert sum(aside.rows.values()) == sum(count for word, count in watched.words.items() if word.endswith("7"))
    assert dict(final.keyed_entries("per-word", "count")) == dict(watched.words)
    assert dict(final.keyed_entries("per-length", "count")) == dict(lengths)
    assert engine != MICRO_BATCH or in_step()
    assert Counter(seen.read_text().split()) == watched.words, "the source and its map ran once per epoch for all branches"

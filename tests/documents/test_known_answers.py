"""Small jobs out of documents, with the answers the documents give."""

import json
from collections import Counter

import pytest

from pystate.common import Row, Types
from pystate.common.errors import UserFunctionError
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])


class Rows:
    """A sink that remembers all rows, epoch by epoch."""

    def __init__(self):
        self.rows = []

    def __call__(self, frame, epoch):
        self.rows += [tuple(row) for row in frame.collect()]


def keyed_state(path, uid, state):
    """Return the entries of a state in a snapshot, and its source offsets."""
    reader = SnapshotReader(path)
    offsets = [json.loads(source["offset"]) for source in reader.metadata.source_position.sources]
    return dict(reader.keyed_entries(uid, state)), offsets


def test_consumer_lag_is_the_producers_offset_minus_each_consumers(run_job, tmp_path):
    lines = ["orders 100 payments 90", "orders 100 fraud 100", "clicks 7 reports 0"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "offsets.txt").write_text("\n".join(lines))
    sink = Rows()

    def lag(line):
        topic, produced, group, consumed = line.split()
        return Row(topic=topic, group=group, lag=int(produced) - int(consumed))

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        lag_type = Types.ROW_NAMED(["topic", "group", "lag"], [Types.STRING(), Types.STRING(), Types.LONG()])
        env.read_text_file(str(tmp_path / "in")).map(lag, output_type=lag_type).for_each_batch(sink)
        env.execute("consumer lag")

    job = run_job(program)
    job.result()
    assert sorted(sink.rows) == [("clicks", "reports", 7), ("orders", "fraud", 0), ("orders", "payments", 10)]
    assert job.status["state"] == "FINISHED"


def test_access_log_lines_are_counted_as_they_come(run_job, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "access.log").write_text("GET /api/a\nPOST /api/b\nGET /api/a\n")

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        lines = env.read_text_file(str(tmp_path / "in"))
        lines.key_by(lambda line: line, key_type=Types.STRING()).process(RunningCount(), COUNTED).uid("count").map(
            lambda pair: f"{pair[0]} -> {pair[1]}"
        ).print()
        env.execute("access log")

    run_job(program, {"parallelism.default": "1"}).result()
    assert capsys.readouterr().out.splitlines() == ["GET /api/a -> 1", "POST /api/b -> 1", "GET /api/a -> 2"]


def test_printed_lines_name_their_subtask(run_job, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "words.txt").write_text("hello\nworld\nhello\nhello\n")

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.read_text_file(str(tmp_path / "in")).key_by(lambda word: word).process(RunningCount()).uid("count").print()
        env.execute("words")

    run_job(program).result()
    lines = capsys.readouterr().out.splitlines()
    assert Counter(line.split("> ")[1] for line in lines) == Counter(
        ["('hello', 1)", "('hello', 2)", "('hello', 3)", "('world', 1)"]
    )
    assert {line.split("> ")[0] for line in lines} <= {"1", "2"}
    assert len({line.split("> ")[0] for line in lines if "hello" in line}) == 1, "a key has one subtask"


def test_a_job_whose_source_ends_takes_a_last_checkpoint_and_is_finished(run_job, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "words.txt").write_text("hello\nworld\nhello\n")
    sink = Rows()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.enable_checkpointing(3_600_000)
        words = env.read_text_file(str(tmp_path / "in")).key_by(lambda word: word)
        words.process(RunningCount(), COUNTED).uid("count").for_each_batch(sink)
        env.execute("bounded")

    job = run_job(program)
    job.result()
    assert job.status["state"] == "FINISHED"
    assert sorted(sink.rows) == [("hello", 1), ("hello", 2), ("world", 1)]
    statistics = job.master.coordinator.statistics()
    assert statistics["counts"]["completed"] == 1
    assert statistics["history"][0]["epoch"] >= 0
    assert not list((tmp_path / "checkpoints").glob("*/chk-*")), "a finished job leaves no checkpoint"


WORDS = "hello world hello flink hello spark world"


def word_count(word_source, path, sink, before=lambda word: word):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_data_frame(word_source(path), "words")
        counts = words.key_by("word").process(CountFailing(before), COUNTED).uid("count")
        counts.for_each_batch(sink)
        env.execute("word count")

    return program


class CountFailing(RunningCount):
    def __init__(self, before):
        self.before = before

    def process_element(self, value, ctx):
        self.before(value.word)
        yield from super().process_element(value, ctx)


@pytest.mark.slow
def test_a_snapshot_after_the_third_word_says_offset_3_hello_2_world_1(run_job, word_source, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(" ".join(WORDS.split()[:3]))
    sink = Rows()
    job = run_job(word_count(word_source, path, sink))
    job.wait_running()
    job.wait_for(lambda: len(sink.rows) == 3)
    snapshot = job.savepoint(tmp_path / "savepoints")
    assert keyed_state(snapshot, "count", "count") == ({"hello": 2, "world": 1}, [{"offset": 3}])

    path.write_text(WORDS)
    job.wait_for(lambda: len(sink.rows) == 7)
    assert sink.rows == [
        ("hello", 1),
        ("world", 1),
        ("hello", 2),
        ("flink", 1),
        ("hello", 3),
        ("spark", 1),
        ("world", 2),
    ]


@pytest.mark.slow
def test_a_failure_at_the_fifth_word_leaves_the_end_result_exact(run_job, word_source, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(" ".join(WORDS.split()[:4]))
    failed = tmp_path / "failed"
    sink = Rows()

    def fail_once(word):
        if path.read_text() == WORDS and not failed.exists():
            failed.touch()
            message = f"the fifth word is {word}"
            raise ValueError(message)

    options = {"execution.checkpointing.interval": "100 ms", "execution.checkpointing.num-retained": "3"}
    job = run_job(word_count(word_source, path, sink, fail_once), options)
    job.wait_running()
    job.wait_for(lambda: len(sink.rows) == 4)
    done = job.master.coordinator.statistics()["counts"]["completed"]
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > done)
    path.write_text(WORDS)
    job.wait_for(lambda: len(sink.rows) == 7)
    assert sink.rows[4:] == [("hello", 3), ("spark", 1), ("world", 2)]
    assert job.status["attempt"] == 1
    assert "the fifth word is hello" in job.status["failure"]["message"]
    snapshot = job.savepoint(tmp_path / "savepoints", cancel=True)
    state, offsets = keyed_state(snapshot, "count", "count")
    assert state == dict(Counter(WORDS.split()))
    assert offsets == [{"offset": 7}]


def test_without_checkpoints_a_failure_is_the_jobs_end(run_job, word_source, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(WORDS)

    def fail(word):
        message = f"no {word} here"
        raise ValueError(message)

    job = run_job(word_count(word_source, path, Rows(), fail))
    with pytest.raises(UserFunctionError, match="ValueError: no hello here"):
        job.result()
    assert job.status["state"] == "FAILED"
    assert "in fail" in job.status["failure"]["stack_trace"]

"""Jobs that can't start, on real Spark: each ends with one sentence that names the place, and nothing is lost."""

import shutil
import time
from pathlib import Path

import pytest

from pystate.common import Duration, Types
from pystate.common.errors import (
    CheckpointFailedError,
    CorruptSnapshotError,
    JobCancelledError,
    RecordError,
    StateDeclarationError,
    UserFunctionError,
)
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from tests.engines import REAL_TIME, slowly_on_real_time

FILES_ONLY = {"execution.checkpointing.data-inline-threshold": "0 b"}


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value} {count}"


def program(folder, rows):
    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        stream = env.from_source(source.monitor_continuously(Duration.of_millis(100)).build())
        counted = stream.key_by(lambda word: word).process(Count()).uid("count")
        counted.for_each_batch(lambda frame, epoch: rows.extend(row[0] for row in frame.collect()))
        env.execute("bad starts")

    return build


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    (made / "a.txt").write_text("to\nbe\nor\nnot\nto\nbe\n")
    return made


def test_a_checkpoint_directory_that_can_not_be_written_is_told_before_the_first_epoch(run_job, folder, tmp_path):
    (tmp_path / "file").write_text("")
    rows = []
    options = {
        "execution.checkpointing.dir": str(tmp_path / "file" / "checkpoints"),
        "execution.checkpointing.interval": "1 s",
    }
    with pytest.raises(
        CheckpointFailedError, match="^Cannot create the directory .*checkpoints.*: Not a directory"
    ) as error:
        run_job(program(folder, rows), options).result()
    assert error.value.hint == "set execution.checkpointing.dir to a place the job can write to"
    assert rows == []


@pytest.fixture
def savepoint(run_job, folder, tmp_path):
    """A savepoint whose state lies in files; returns its directory."""
    rows = []
    job = run_job(program(folder, rows), FILES_ONLY)
    job.wait_for(lambda: len(rows) == 6)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    return Path(path.removeprefix("file:"))


def removed(file):
    file.unlink()


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def changed(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


BAD_FILES = [
    ("*-keyed*", removed),
    ("*-keyed*", cut),
    ("*-keyed*", changed),
    ("spark-logs*", removed),
    ("spark-logs*", changed),
    ("_metadata", cut),
    ("_metadata", changed),
]


@slowly_on_real_time
def test_a_snapshot_with_a_bad_file_is_refused_by_the_name_of_the_file(run_job, engine, folder, savepoint, tmp_path):
    for number, (pattern, damage) in enumerate(BAD_FILES):
        if engine == REAL_TIME and pattern.startswith("spark"):  # which reads no source there
            continue
        copy = shutil.copytree(savepoint, tmp_path / f"bad-{number}")
        file = sorted(copy.glob(pattern))[0]
        damage(file)
        rows = []
        resumed = run_job(program(folder, rows), {"execution.state-recovery.path": str(copy)})
        with pytest.raises(CorruptSnapshotError) as error:
            resumed.result()
        place = f"{error.value.message} {error.value.where}"
        assert str(copy if pattern == "_metadata" else file) in place
        assert "\n" not in error.value.message
        assert rows == []


class NeverTheSame(Count):
    def open(self, runtime_context):
        message = f"no answer at {time.time_ns()}"
        raise ConnectionError(message)


class WrongKind(Count):
    def open(self, runtime_context):
        self.count = runtime_context.get_map_state(ValueStateDescriptor("count"))


class HalfASurrogate(Count):
    def process_element(self, value, ctx):
        yield "\ud800"


@pytest.mark.parametrize(
    ("function", "kind", "attempts", "line"),
    [
        (NeverTheSame(), UserFunctionError, 3, "raise ConnectionError(message)"),
        (WrongKind(), StateDeclarationError, 1, "get_map_state(ValueStateDescriptor"),
        (HalfASurrogate(), RecordError, 3, None),
    ],
)
def test_a_job_that_fails_in_the_same_way_at_each_start_ends(run_job, folder, function, kind, attempts, line):
    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        stream = env.from_source(source.monitor_continuously(Duration.of_millis(100)).build())
        counted = stream.key_by(lambda word: word).process(function, Types.STRING()).uid("count")
        counted.for_each_batch(lambda frame, epoch: frame.collect())
        env.execute("ends")

    quick = {f"restart-strategy.exponential-delay.{name}-backoff": "10 ms" for name in ("initial", "max")}
    job = run_job(build, {"execution.checkpointing.interval": "200 ms", **quick})
    with pytest.raises(kind) as error:
        job.result()

    assert job.status["state"] == "FAILED"
    assert job.status["failure_count"] == attempts
    assert "(uid count)" in error.value.where or "uid count" in error.value.where
    if line is not None:
        text = Path(__file__).read_text().splitlines()
        number = next(number for number, one in enumerate(text, 1) if line in one)
        assert f'File "{__file__}", line {number}, in open' in error.value.where

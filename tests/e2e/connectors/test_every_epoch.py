"""A barrier on every epoch: a sink that tells batches apart by number sees the same batch again, and stays exactly-once."""

from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import ConfigurationError, JobCancelledError
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tests.spark_lines import lines_by_spark

OPTIONS = {
    "execution.checkpointing.every-epoch": "true",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "5",
    "restart-strategy.fixed-delay.delay": "10 ms",
}


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value} {count}"


class IdempotentSink:
    """Keeps the rows of each epoch; fails once after its own commit of an epoch."""

    def __init__(self, fail_at, on_failure):
        self.epochs = {}
        self.deliveries = []
        self.fail_at = fail_at
        self.on_failure = on_failure

    def __call__(self, frame, epoch):
        rows = sorted(row[0] for row in frame.collect())
        self.deliveries.append(epoch)
        if not rows:
            return
        if epoch in self.epochs:
            assert self.epochs[epoch] == rows, "an epoch came again with other rows"
            return
        self.epochs[epoch] = rows
        if len(self.epochs) == self.fail_at:
            self.on_failure()
            message = "the connection was lost after the commit"
            raise OSError(message)

    @property
    def rows(self):
        return sorted(row for rows in self.epochs.values() for row in rows)


def program(folder, sink):
    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = lines_by_spark(env, folder, "words")
        stream.key_by(lambda word: word, Types.STRING()).process(Count(), Types.STRING()).uid("count").for_each_batch(sink)
        env.execute("every epoch")

    return build


def expected(words):
    return sorted(f"{word} {number}" for word, count in Counter(words).items() for number in range(1, count + 1))


def put(folder, name, words):
    part = folder.with_name(f"part-{name}")  # the sink puts one at any time
    part.write_text("\n".join(words) + "\n")
    part.rename(folder / name)


@pytest.mark.parametrize("fail_at", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_epoch_that_failed_after_its_sink_is_run_again_with_the_same_rows_under_its_number(run_job, tmp_path, fail_at):
    folder = tmp_path / "in"
    folder.mkdir()
    words = {f"{index}.txt": [f"w{(index * 7 + n) % 5}" for n in range(20)] for index in range(4)}
    # what arrives between the failure and the restart must not become part of the epoch that is run again
    sink = IdempotentSink(fail_at, lambda: put(folder, "late.txt", ["late"] * 3))
    put(folder, "0.txt", words["0.txt"])
    job = run_job(program(folder, sink), OPTIONS)
    for name in ("1.txt", "2.txt", "3.txt"):
        done = len(sink.rows)
        job.wait_for(lambda done=done: len(sink.rows) > done)
        put(folder, name, words[name])
    everything = [*(word for one in words.values() for word in one), *["late"] * 3]
    job.wait_for(lambda: len(sink.rows) >= len(everything))
    assert sink.rows == expected(everything)
    assert job.status["attempt"] == 1
    numbers = [epoch for epoch in sink.deliveries if epoch in sink.epochs]
    again = [epoch for epoch, times in Counter(numbers).items() if times > 1]
    assert len(again) == 1
    assert numbers == sorted(numbers), "epoch numbers went back"


def test_every_epoch_has_its_checkpoint_before_the_next_begins(run_job, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    sink = IdempotentSink(None, None)
    retaining = {
        "execution.checkpointing.num-retained": "100",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    job = run_job(program(folder, sink), {**OPTIONS, **retaining})
    for index in range(3):
        put(folder, f"{index}.txt", ["a", "b", str(index)])
        job.wait_for(lambda index=index: len(sink.rows) == 3 * (index + 1))
    job.savepoint(tmp_path / "savepoint", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    found = {}
    for directory in (tmp_path / "checkpoints" / job.job_id).glob("chk-*"):
        if (directory / "_metadata").exists():
            found[SnapshotReader(str(directory)).metadata.epoch] = directory
    assert set(sink.deliveries) - {max(sink.deliveries)} <= set(found)
    assert list((tmp_path / "checkpoints" / job.job_id / "taskowned").iterdir()) == []


def test_it_needs_a_place_for_its_checkpoints(run_job, tmp_path):
    options = {**OPTIONS, "execution.checkpointing.dir": ""}
    with pytest.raises(ConfigurationError, match="every-epoch needs a place"):
        run_job(program(tmp_path, IdempotentSink(None, None)), options).result()

"""A job with Flink's old `MemoryStateBackend`: checkpoints live in the driver, and have their bounds."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import JobExecutionError
from pystate.datastream import MemoryStateBackend, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.engines import slowly_on_real_time
from tests.faults.workload import COUNTED, RECOVERING, Count, Sink, Watched, state_in


class FailingCount(Count):
    """Counts; fails once at the element that finds a file."""

    def __init__(self, flag):
        super().__init__()
        self.flag = flag

    def process_element(self, value, ctx):
        if self.flag.exists():
            self.flag.unlink(missing_ok=True)
            message = "told to fail"
            raise ValueError(message)
        yield from super().process_element(value, ctx)


def counting(watched, sink, flag):
    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_state_backend(MemoryStateBackend(max_state_size=64 << 10, asynchronous=False))
        words = env.from_source(FileSource(str(watched.folder), monitor_interval_ms=1000), None, "words")
        keyed = words.key_by(lambda word: word, key_type=Types.STRING())
        keyed.process(FailingCount(flag), COUNTED).name("Count").uid("count").for_each_batch(sink)
        env.execute("count")

    return run


@slowly_on_real_time
def test_a_failed_attempt_restores_from_memory_and_too_large_a_state_is_refused(run_job, tmp_path, capfd):
    watched, sink, flag = Watched(tmp_path), Sink(), tmp_path / "flag"
    watched.add(3)
    options = {**RECOVERING, "restart-strategy.fixed-delay.attempts": "1", "execution.checkpointing.dir": ""}
    job = run_job(counting(watched, sink, flag), options)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    assert "checkpoints are kept in the memory of the job's driver" in capfd.readouterr().err
    statistics = job.master.coordinator.statistics
    reached = statistics()["counts"]["completed"]
    job.wait_for(lambda: statistics()["counts"]["completed"] >= reached + 2)  # the last one has all words

    before = watched.pairs
    flag.touch()
    watched.add(3)
    job.wait_for(lambda: job.status["attempt"] == 1 and set(sink.rows) >= watched.pairs)
    restored = statistics()["latest"]["restored"]
    assert restored["external_path"] == f"jobmanager:/{job.job_id}/chk-{restored['id']}"
    assert all(sink.rows[pair] == 1 for pair in before), "what the checkpoint holds is not read again"
    assert set(sink.rows) == watched.pairs
    assert not list((tmp_path / "checkpoints").rglob("*")), "no checkpoint is written to files"
    # a savepoint is
    assert state_in(job.savepoint(tmp_path / "savepoints")) == dict(watched.words)

    watched.add(1, words_per_file=20_000, different=10_000)
    with pytest.raises(JobExecutionError, match="Size of the state is larger than the maximum permitted") as error:
        job.result()
    assert "maxSize=65536" in error.value.message
    assert "Count (uid count), subtask" in str(error.value.where)
    assert "execution.checkpointing.storage = filesystem" in str(error.value.hint)

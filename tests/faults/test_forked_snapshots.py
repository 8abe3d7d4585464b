"""A job whose slots have copies of themselves write their state: exact behind lost slots and killed copies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.engines import slowly_on_real_time
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Sink, Watched, state_in

pytestmark = [needs_proc, pytest.mark.timeout(400)]

KEYS = 50_000


class CountingForks(Count):
    """Counts, and notes each process that its own forks: a line in a file each.

    Args:
        folder: Where `forks` is; where `deadly` is there, the next one kills itself before it writes, and takes that away.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def open(self, runtime_context):
        super().open(runtime_context)
        os.register_at_fork(after_in_child=self.note)

    def note(self):
        with (self.folder / "forks").open("a") as file:
            file.write("x\n")
        if (self.folder / "deadly").exists():
            (self.folder / "deadly").unlink()
            os.kill(os.getpid(), signal.SIGKILL)


@slowly_on_real_time
def test_state_is_exact_behind_lost_slots_and_copies(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=500)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        words.process(CountingForks(tmp_path), COUNTED).uid("count").for_each_batch(sink)
        env.execute("count")

    def forks():
        file = tmp_path / "forks"
        return len(file.read_text()) // 2 if file.exists() else 0

    def went_on(behind):
        job.wait_for(lambda: job.status["attempt"] > behind and job.status["state"] == "RUNNING")

    watched.add(1, 4 * KEYS, KEYS)
    options = {**RECOVERING, "state.backend.hashmap.forked-snapshots": "true", "parallelism.default": "2"}
    job = run_job(program, {**options, "execution.checkpointing.interval": "1 s"})
    job.wait_for(lambda: forks() >= 2)
    watched.add(1, 1_000, KEYS)
    attempt = job.status["attempt"]
    kill(job.master.slot_pids[0])
    went_on(attempt)
    watched.add(1, 1_000, KEYS)

    attempt = job.status["attempt"]
    (tmp_path / "deadly").touch()
    job.wait_for(lambda: not (tmp_path / "deadly").exists())
    completed = job.master.coordinator.statistics()["counts"]["completed"]
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > completed + 1)
    assert job.status["attempt"] == attempt, "what the copy should have written was written once more"
    watched.add(1, 1_000, KEYS)

    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words)

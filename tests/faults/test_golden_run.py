"""p = 1 to the end gives what p = 2 with checkpoints and a kill, a savepoint, and the rest at p = 3 give."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobCancelledError
from tests.engines import on_both_engines
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in

pytestmark = [needs_proc, pytest.mark.timeout(240)]


def finish(job, watched, sink, tmp_path):
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    return path


@pytest.mark.slow
@on_both_engines
@pytest.mark.parametrize(("first", "second"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_golden_run(run_job, tmp_path, first, second):
    plain, plain_sink = Watched(tmp_path / "plain"), Sink()
    plain.add(12)
    job = run_job(counting(plain, plain_sink), {"parallelism.default": "1", "state.backend.type": first})
    expected = state_in(finish(job, plain, plain_sink, tmp_path))

    watched, sink = Watched(tmp_path / "killed"), Sink()
    watched.add(4)
    job = run_job(counting(watched, sink), {**RECOVERING, "parallelism.default": "2", "state.backend.type": first})
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > 1)
    watched.add(2)
    kill(job.master.slot_pids[0])
    watched.add(2)
    job.wait_for(lambda: job.status["attempt"] >= 1 and job.status["state"] == "RUNNING")
    path = finish(job, watched, sink, tmp_path)
    options = {**RECOVERING, "parallelism.default": "3", "execution.state-recovery.path": path}
    resumed = run_job(counting(watched, sink), {**options, "state.backend.type": second})
    watched.add(4)
    final = state_in(finish(resumed, watched, sink, tmp_path))

    assert final == expected
    assert set(sink.rows) == set(plain_sink.rows)

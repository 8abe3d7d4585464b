"""Random kills, one after another, under a job that is fed all the while."""

from __future__ import annotations

import random
import time

import pytest

from pystate.common.errors import JobCancelledError
from tests.faults.processes import children, daemons, kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in

KILLS = 25


@needs_proc
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_or_doubled_by_random_kills(run_job, spark, tmp_path, seed):
    print(f"seed {seed}")
    chance = random.Random(seed)
    watched, sink = Watched(tmp_path, seed), Sink()
    options = {**RECOVERING, "restart-strategy.fixed-delay.attempts": "1000"}
    job = run_job(counting(watched, sink, files_per_epoch=1), options)
    job.wait_running()
    for _ in range(KILLS):
        watched.add(chance.randrange(1, 4))
        time.sleep(chance.random() * 1.5)  # at any moment: in an epoch, a barrier, an upload, a restore
        attempt = job.master._attempt
        slots = [] if attempt is None else sorted(attempt.slot_pids.values())
        forkers = daemons(spark)
        workers = sorted(pid for forker in forkers for pid in children(forker) if pid not in slots)
        victims = chance.choice([slots, workers, slots, workers, forkers])
        if victims:
            kill(chance.choice(victims))
    job.wait_for(lambda: set(sink.rows) >= watched.pairs, timeout=300)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words), f"seed {seed}"
    assert set(sink.rows) == watched.pairs, f"seed {seed}"
    assert job.status["attempt"] > 0

"""Slots, exchanges and their daemon killed under a running job: it goes on by itself, and counts once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pystate.common.errors import JobCancelledError, JobExecutionError
from pystate.runtime.job_folder.temporary_folders import folder_prefix
from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines, on_micro_batch
from tests.faults.processes import children, daemons, is_gone, kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.timeout(180)]


def slots_of(job):
    return wait_until(lambda: job.master.slot_pids)


def workers_of(spark):
    return [pid for daemon in daemons(spark) for pid in children(daemon)]


def wait_for_checkpoint(job):
    seen = job.master.coordinator.statistics()["counts"]["completed"]
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > seen)


def attempt(job):
    return job.status["attempt"]


def check_exact(job, watched, sink, tmp_path):
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words), "state is neither lost nor doubled"
    assert set(sink.rows) == watched.pairs, "every row has reached the sink, and none with a count that never was"


@pytest.mark.parametrize(
    ("engine", "victim"),
    [
        pytest.param(MICRO_BATCH, "slot", id="slot"),
        pytest.param(MICRO_BATCH, "daemon", id="daemon", marks=pytest.mark.slow),
        pytest.param(REAL_TIME, "slot", id="slot-real-time", marks=pytest.mark.slow),
        pytest.param(REAL_TIME, "daemon", id="daemon-real-time", marks=pytest.mark.slow),
        pytest.param(REAL_TIME, "relay", id="relay-real-time", marks=pytest.mark.slow),
    ],
    indirect=["engine"],
)
def test_a_job_goes_on_from_its_checkpoint_when_state_dies(run_job, spark, tmp_path, victim):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(6)
    job = run_job(counting(watched, sink), RECOVERING)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    wait_for_checkpoint(job)
    watched.add(6)
    slots = slots_of(job)
    if victim == "slot":
        kill(slots[1])
    elif victim == "relay":
        kill(next(pid for pid in workers_of(spark) if pid not in slots.values()))
    else:
        for pid in daemons(spark):
            kill(pid)
    job.wait_for(lambda: attempt(job) == 1 and job.status["state"] == "RUNNING")
    assert "checkpoint" in job.master.coordinator.statistics()["latest"]["restored"]["external_path"]
    watched.add(3)
    check_exact(job, watched, sink, tmp_path)
    prefix = folder_prefix(job.job_id)
    wait_until(lambda: not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(prefix)])
    assert not list(Path("/dev/shm").glob(f"{prefix}*"))


@pytest.mark.slow
@on_micro_batch
def test_a_killed_exchange_is_run_again_and_its_epoch_counts_once(run_job, spark, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    gate = tmp_path / "gate"
    job = run_job(counting(watched, sink, gate=gate), RECOVERING)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    gate.touch()
    watched.add(1, words_per_file=60_000, different=20_000)  # more than fits between worker and slot at once
    job.wait_for(lambda: (tmp_path / "entered").exists())
    slots = set(slots_of(job).values())
    workers = [pid for pid in workers_of(spark) if pid not in slots]
    for pid in workers:
        kill(pid)
    wait_until(lambda: all(is_gone(pid) for pid in workers))
    gate.unlink()
    check_exact(job, watched, sink, tmp_path)
    assert attempt(job) == 0, "a lost worker costs a retry of its task, not the job"
    assert set(sink.rows.values()) == {1}, "the epoch has counted once"


@pytest.mark.slow
@on_both_engines
def test_a_job_without_restarts_fails_with_its_slot(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    job = run_job(counting(watched, sink), {**RECOVERING, "restart-strategy.type": "none"})
    job.wait_running()
    kill(slots_of(job)[0])
    with pytest.raises(JobExecutionError, match="lost"):
        job.result()
    assert job.status["state"] == "FAILED"
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(folder_prefix(job.job_id))]


@pytest.mark.slow
@on_both_engines
def test_without_a_checkpoint_a_job_begins_again_at_its_savepoint(run_job, tmp_path, capfd):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(2)
    job = run_job(counting(watched, sink))
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    before = set(watched.pairs)
    restarting = {key: value for key, value in RECOVERING.items() if key.startswith("restart")}
    watched.add(2)
    sink = Sink()
    job = run_job(counting(watched, sink), {**restarting, "execution.state-recovery.path": path})
    job.wait_for(lambda: set(sink.rows) >= watched.pairs - before)
    kill(slots_of(job)[0])
    job.wait_for(lambda: attempt(job) == 1 and job.status["state"] == "RUNNING")
    assert "from the savepoint the job was started from" in capfd.readouterr().err
    job.wait_for(lambda: min(sink.rows[pair] for pair in watched.pairs - before) == 2)
    assert set(sink.rows) == watched.pairs - before, "what lies before the savepoint is not read again"
    assert state_in(job.savepoint(tmp_path / "savepoints")) == dict(watched.words)

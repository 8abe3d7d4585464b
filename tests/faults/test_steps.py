"""Slots that fail, die and hang at every step of an epoch and its checkpoint; state counts once all the same."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import signal
import time

import pytest

from pystate.common.errors import JobCancelledError, UserFunctionError
from pystate.runtime.execution.slots import registered_slot
from pystate.runtime.spark.slot_job import SlotJob
from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines, slowly_on_real_time
from tests.faults.injection import IN_DRIVERS, IN_SLOTS, POINTS, Action, Faults, Step, strike_in_driver
from tests.faults.processes import is_gone, is_slot, kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, check_tallies, counting, state_in
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.timeout(300)]

OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "0 ms",
    "execution.checkpointing.data-inline-threshold": "0",  # so that state has files of its own
}


def test_every_step_is_a_method_of_today():
    for point in POINTS.values():
        assert callable(getattr(pkgutil.resolve_name(point.owner), point.method)), point


@pytest.fixture
def faults(tmp_path):
    made = Faults(tmp_path / "faults")
    yield made
    made.disarm()


def counts(job):
    return job.master.coordinator.statistics()["counts"]


def wait_for_attempt(job, number):
    job.wait_for(lambda: job.status["attempt"] >= number and job.status["state"] == "RUNNING")


def finish(job, watched, sink, tmp_path):
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert set(sink.rows) == watched.pairs, "every row has come out, and none with a count that never was"
    return path


def kill_at(faults, job, watched, step, monkeypatch):
    """Kill a slot while it is at a step, or while the driver is."""
    attempt = job.status["attempt"]
    watched.add(1)
    if step not in IN_DRIVERS:
        faults.arm(step, Action.KILL, after=5 if step is Step.ELEMENT else 0)
        victim = job.wait_for(lambda: faults.struck(step)) or faults.struck(step)[0]
    else:
        victim = job.master.slot_pids[1]
        with monkeypatch.context() as patched:
            strike_in_driver(patched, step, lambda: kill(victim))
            job.wait_for(lambda: is_gone(victim))
    wait_for_attempt(job, attempt + 1)
    assert is_gone(victim)


def all_steps(engine):
    return [step for step in (Step.ELEMENT, *IN_SLOTS[engine], *IN_DRIVERS) if step is not Step.RESTORE]


@pytest.mark.slow  # test_killed_workers.py kills one at any moment
@pytest.mark.parametrize(
    ("engine", "backend", "steps"),
    [
        pytest.param(MICRO_BATCH, "hashmap", all_steps(MICRO_BATCH), id="all-hashmap"),
        pytest.param(MICRO_BATCH, "rocksdb", all_steps(MICRO_BATCH), id="all-rocksdb"),
        pytest.param(REAL_TIME, "hashmap", all_steps(REAL_TIME), id="all-hashmap-real-time"),
        pytest.param(REAL_TIME, "rocksdb", all_steps(REAL_TIME), id="all-rocksdb-real-time"),
    ],
    indirect=["engine"],
)
@pytest.mark.timeout(600)
def test_a_slot_killed_at_any_step(run_job, tmp_path, faults, monkeypatch, backend, steps):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(2)
    job = run_job(counting(watched, sink, faults=faults, tally=True), {**OPTIONS, "state.backend.type": backend})
    job.wait_for(lambda: counts(job)["completed"] > 1)
    for step in steps:
        kill_at(faults, job, watched, step, monkeypatch)
    check_tallies(finish(job, watched, sink, tmp_path), watched.words)


@slowly_on_real_time
def test_a_step_that_fails_costs_an_epoch_a_checkpoint_or_an_attempt_and_no_count(run_job, tmp_path, faults, engine):
    watched, sink = Watched(tmp_path), Sink()
    options = {**OPTIONS, "execution.checkpointing.tolerable-failed-checkpoints": "100"}
    job = run_job(counting(watched, sink, faults=faults), options)
    job.wait_running()

    watched.add(1)
    if engine == MICRO_BATCH:
        faults.arm(Step.PREPARED, Action.FAIL)  # the slot hangs up; a source in slots goes back to its checkpoint then
        job.wait_for(lambda: faults.struck(Step.PREPARED))
        completed = counts(job)["completed"]
        job.wait_for(lambda: counts(job)["completed"] > completed + 1)  # one was under way; after the next it is known
    job.wait_for(lambda: set(sink.rows) >= watched.pairs and job.status["state"] == "RUNNING")
    attempt = job.status["attempt"]
    assert attempt <= 1

    for step in (Step.UPLOAD, Step.ACKNOWLEDGE):
        failed = counts(job)["failed"]
        # again and again: a slot that is late may still be at a checkpoint that has failed, which fails no more
        faults.arm(step, Action.FAIL, times=1000)
        job.wait_for(lambda step=step, failed=failed: faults.struck(step) and counts(job)["failed"] > failed)
        faults.disarm(step)
    completed = counts(job)["completed"]
    job.wait_for(lambda: counts(job)["completed"] > completed)
    assert job.status["attempt"] == attempt, "a checkpoint that fails within what is tolerated costs the job nothing"

    faults.arm(Step.FLUSHED, Action.FAIL)
    watched.add(1)
    wait_for_attempt(job, attempt + 1)
    assert "injected at flushed" in job.status["failure"]["message"]
    watched.add(1)
    assert state_in(finish(job, watched, sink, tmp_path)) == dict(watched.words)


@pytest.mark.slow
@on_both_engines
def test_a_user_exception_on_the_nth_record_and_failures_at_restore(run_job, tmp_path, faults, capfd):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(2)
    job = run_job(counting(watched, sink, faults=faults), OPTIONS)
    job.wait_for(lambda: counts(job)["completed"] > 1 and set(sink.rows) >= watched.pairs)

    faults.arm(Step.ELEMENT, Action.FAIL, after=7)
    watched.add(1)
    wait_for_attempt(job, 1)
    assert job.status["failure"]["class"] == "UserFunctionError"
    assert "injected at element" in job.status["failure"]["message"]
    assert "process_element" in job.status["failure"]["stack_trace"]

    # the restore fails, then a slot dies in it, then another at the same place; then it works
    faults.arm(Step.RESTORE, Action.FAIL)
    kill(job.master.slot_pids[0])
    wait_for_attempt(job, 3)
    assert len(faults.struck(Step.RESTORE)) == 1
    faults.arm(Step.RESTORE, Action.KILL, times=2)
    kill(job.master.slot_pids[1])
    job.wait_for(lambda: len(faults.struck(Step.RESTORE)) == 2)
    wait_for_attempt(job, 5)
    watched.add(1)
    assert state_in(finish(job, watched, sink, tmp_path)) == dict(watched.words)


@slowly_on_real_time
def test_a_function_that_fails_in_the_same_way_at_two_starts_ends_the_job_at_once(run_job, tmp_path, faults):
    watched, sink = Watched(tmp_path), Sink()
    faults.arm(Step.RESTORE, Action.FAIL, times=1000)
    job = run_job(counting(watched, sink, faults=faults), OPTIONS)
    with pytest.raises(UserFunctionError, match="injected at restore"):
        job.result()
    assert job.status["state"] == "FAILED"
    assert job.status["attempt"] == 1


@slowly_on_real_time
def test_restarts_that_are_used_up_end_the_job_with_the_cause(run_job, tmp_path, faults):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    faults.arm(Step.ELEMENT, Action.FAIL, times=1000)
    job = run_job(counting(watched, sink, faults=faults), {**OPTIONS, "restart-strategy.fixed-delay.attempts": "2"})
    with pytest.raises(UserFunctionError, match="injected at element"):
        job.result()
    assert job.status["state"] == "FAILED"
    assert job.status["attempt"] == 2
    assert job.status["failure_count"] == 3
    assert not sink.rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "step"),
    [
        pytest.param(MICRO_BATCH, Step.ACKNOWLEDGE, id="Step.ACKNOWLEDGE"),
        pytest.param(MICRO_BATCH, Step.ELEMENT, id="Step.ELEMENT"),
        pytest.param(MICRO_BATCH, Step.TOLD, id="Step.TOLD"),
        pytest.param(MICRO_BATCH, Step.SYNC, id="Step.SYNC"),
        pytest.param(MICRO_BATCH, Step.UPLOAD, id="Step.UPLOAD"),
        pytest.param(REAL_TIME, Step.ACKNOWLEDGE, id="Step.ACKNOWLEDGE-real-time"),
        pytest.param(REAL_TIME, Step.ELEMENT, id="Step.ELEMENT-real-time"),
        pytest.param(REAL_TIME, Step.BARRIER_SENT, id="Step.BARRIER_SENT-real-time"),
        pytest.param(REAL_TIME, Step.UPLOAD, id="Step.UPLOAD-real-time"),
    ],
    indirect=["engine"],
)
def test_a_slot_that_is_stopped_and_goes_on_after_its_successor_does_no_harm(run_job, tmp_path, faults, monkeypatch, step):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(2)
    job = run_job(counting(watched, sink, faults=faults), OPTIONS)
    job.wait_for(lambda: counts(job)["completed"] > 1)
    # as on a machine that nobody reaches: Spark can't kill the old slot
    monkeypatch.setattr(SlotJob, "cancel", lambda *_: None)
    faults.arm(step, Action.STOP)
    watched.add(1)
    job.wait_for(lambda: faults.struck(step))
    (stopped,) = faults.struck(step)
    attempt = job.status["attempt"] + 1
    with monkeypatch.context() as patch:  # no longer: those that start now may be slow
        patch.setattr(registered_slot, "HEARTBEAT_TIMEOUT_S", 2.0)
        job.wait_for(lambda: job.status["attempt"] >= attempt)
    wait_for_attempt(job, attempt)
    assert "not been heard of" in job.status["failure"]["message"]
    assert not is_gone(stopped)
    watched.add(1)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    rows = dict(sink.rows)

    os.kill(stopped, signal.SIGCONT)
    # it is told to end, or learns at its next heartbeat that its time is over; Spark may keep the worker it ran in
    wait_until(lambda: not is_slot(stopped))
    time.sleep(0.5)
    assert job.status["attempt"] == attempt, "what the old slot still says does not touch the new attempt"
    assert dict(sink.rows) == rows
    monkeypatch.undo()
    completed = counts(job)["completed"]
    job.wait_for(lambda: counts(job)["completed"] > completed)
    assert state_in(finish(job, watched, sink, tmp_path)) == dict(watched.words)


@pytest.mark.slow
@on_both_engines
def test_a_slot_that_hangs_in_its_restore_is_given_up(run_job, tmp_path, faults, monkeypatch):
    monkeypatch.setattr(registered_slot, "HEARTBEAT_TIMEOUT_S", 2.0)
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    faults.arm(Step.RESTORE, Action.STOP)
    job = run_job(counting(watched, sink, faults=faults), OPTIONS)
    try:
        wait_for_attempt(job, 1)
    finally:
        for stopped in faults.struck(Step.RESTORE):
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGKILL)
    assert "not been heard of" in job.status["failure"]["message"]
    assert state_in(finish(job, watched, sink, tmp_path)) == dict(watched.words)

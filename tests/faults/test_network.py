"""Connections between exchanges, slots and coordinator that are delayed, cut and half-closed: state counts once."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobCancelledError
from tests.engines import REAL_TIME, on_micro_batch
from tests.faults.processes import needs_proc
from tests.faults.proxy import Ambush, Network, Trouble
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in

pytestmark = [needs_proc, pytest.mark.timeout(240)]


@pytest.fixture
def network(monkeypatch):
    made = Network(monkeypatch)
    yield made
    made.close()


def completed(job):
    return job.master.coordinator.statistics()["counts"]["completed"]


@pytest.mark.slow
@on_micro_batch
def test_cut_delayed_and_half_closed_connections(run_job, network, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    options = {**RECOVERING, "execution.checkpointing.tolerable-failed-checkpoints": "10"}
    job = run_job(counting(watched, sink), options)

    def feed(ambush, words=40):
        watched.add(1, words_per_file=words)
        job.wait_for(lambda: ambush.struck >= ambush.times and set(sink.rows) >= watched.pairs)
        return ambush

    job.wait_for(lambda: set(sink.rows) >= watched.pairs and completed(job) > 0)

    # exchange and slot: the epoch is rolled back in the slot, and the exchange's task is run again
    for to_server in (True, False):
        for trouble in (Trouble.CUT, Trouble.HALF_CLOSE):
            rows = b"" if to_server else b"replay"  # to the slot: anything; back: where the output begins
            feed(network.lay(network.exchanges, Ambush(trouble, rows, to_server=to_server)), words=3000)
    feed(network.lay(network.exchanges, Ambush(Trouble.DELAY, seconds=0.2, times=6)), words=3000)
    assert job.status["attempt"] == 0
    assert set(sink.rows.values()) == {1}, "every epoch has counted once"

    # slot and coordinator: what was asked or said is asked or said again over another connection
    for pattern in (b"epoch_prepared", b"acknowledge"):
        ambush = network.lay(network.coordinators, Ambush(Trouble.CUT, pattern))
        seen = completed(job)
        feed(ambush)
        job.wait_for(lambda seen=seen: completed(job) > seen)
    feed(network.lay(network.coordinators, Ambush(Trouble.DELAY, b"acknowledge", seconds=0.5, times=2)))
    assert job.status["attempt"] == 0

    # its heartbeats: the slot counts as lost
    network.lay(network.coordinators, Ambush(Trouble.CUT, b"heartbeat"))
    job.wait_for(lambda: job.status["attempt"] == 1 and job.status["state"] == "RUNNING")
    watched.add(1)
    network.lay(network.coordinators, Ambush(Trouble.HALF_CLOSE, b"heartbeat"))
    job.wait_for(lambda: job.status["attempt"] == 2 and job.status["state"] == "RUNNING")
    network.clear()
    watched.add(1)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words)
    assert set(sink.rows) == watched.pairs


@pytest.mark.slow
@pytest.mark.parametrize("engine", [REAL_TIME], indirect=True)
def test_cut_delayed_and_half_closed_connections_of_relays(run_job, network, tmp_path):
    """A relay that is cut off may have lost records: the job goes back to its checkpoint."""
    watched, sink = Watched(tmp_path), Sink()
    watched.add(1)
    options = {**RECOVERING, "execution.checkpointing.tolerable-failed-checkpoints": "10"}
    job = run_job(counting(watched, sink), options)
    slots = 2  # of an attempt

    def all_there():
        job.wait_for(lambda: set(sink.rows) >= watched.pairs)
        done = completed(job)
        job.wait_for(lambda: completed(job) > done)

    def struck(ambush, words=3000):
        watched.add(1, words_per_file=words)
        job.wait_for(lambda: ambush.struck >= ambush.times)
        all_there()

    all_there()
    struck(network.lay(network.exchanges, Ambush(Trouble.DELAY, seconds=0.2, times=6)))
    struck(network.lay(network.coordinators, Ambush(Trouble.CUT, b"acknowledge")), words=40)
    struck(network.lay(network.coordinators, Ambush(Trouble.DELAY, b"acknowledge", seconds=0.5, times=2)), words=40)
    assert job.status["attempt"] == 0
    assert set(sink.rows.values()) == {1}
    attempts = 0
    for to_server in (True, False):
        for trouble in (Trouble.CUT, Trouble.HALF_CLOSE):
            struck(network.lay(network.exchanges[-slots:], Ambush(trouble, to_server=to_server)))
            attempts += 1
            job.wait_for(lambda least=attempts: job.status["attempt"] >= least and job.status["state"] == "RUNNING")
            all_there()
    network.clear()
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words)
    assert set(sink.rows) == watched.pairs

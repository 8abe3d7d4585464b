"""The real-time engine's checkpoints in all runs of small jobs; and that the search finds each rule that is broken."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pystate.runtime.checkpoint.checkpoint_failures import CheckpointFailures
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.engines.real_time.slot.input.input_gate import InputGate
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from pystate.runtime.engines.real_time.slot.real_time_subtask import RealTimeSubtask
from tests.model import real_subtask
from tests.model.protocol import Budget, Protocol
from tests.model.real_subtask import Graph
from tests.model.search import FaultFoundError, explore

pytestmark = pytest.mark.usefixtures("no_time")

LINE = Graph((("S", "A"), ("A", "B")), (("S", 2),))
TWO = Graph((("S1", "A"), ("S2", "A")), (("S1", 1), ("S2", 1)))
LEVELS = Graph((("S1", "A"), ("S2", "A"), ("A", "B")), (("S1", 1), ("S2", 1)))
DIAMOND = Graph((("S", "A"), ("S", "B"), ("A", "C"), ("B", "C")), (("S", 1),))
THREE = Graph((("S1", "A"), ("S2", "A"), ("S3", "A")), (("S1", 1), ("S2", 1), ("S3", 0)))

FEW = Graph(THREE.edges, (("S1", 1), ("S2", 0), ("S3", 0)))

RUNS = [
    (LINE, Budget(triggers=1, failures=1), 1),
    (LINE, Budget(triggers=2), 2),
    (TWO, Budget(triggers=1, failures=1), 1),
    (DIAMOND, Budget(), 1),
]
LARGER_RUNS = [
    (TWO, Budget(triggers=2, failures=1), 1),
    (TWO, Budget(triggers=2), 2),
    (LEVELS, Budget(), 1),
    (FEW, Budget(), 1),
    (TWO, Budget(triggers=2, failures=2), 1),
    (TWO, Budget(triggers=2, losses=1), 1),
    (LINE, Budget(triggers=2, losses=1, expiries=1), 2),
    (LEVELS, Budget(failures=1), 1),
    (DIAMOND, Budget(failures=1), 1),
    (THREE, Budget(), 1),
    (FEW, Budget(failures=1), 1),
    (TWO, Budget(triggers=1, losses=1, expiries=1), 1),
]


@pytest.mark.parametrize(("graph", "budget", "concurrent"), RUNS)
def test_exactly_once(graph, budget, concurrent):
    assert Protocol(graph, budget, concurrent=concurrent).run().ends


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "budget", "concurrent"), LARGER_RUNS)
def test_exactly_once_in_larger_runs(graph, budget, concurrent):
    assert Protocol(graph, budget, concurrent=concurrent).run().ends


@pytest.mark.parametrize(
    "budget", [Budget(triggers=1, failures=1), pytest.param(Budget(triggers=2), marks=pytest.mark.slow)]
)
def test_at_least_once_loses_nothing(budget):
    assert Protocol(TWO, budget, exactly_once=False).run().ends


def test_at_least_once_sees_records_again_after_a_failure():
    job = Protocol(TWO, Budget(triggers=1, failures=1), exactly_once=False)
    with pytest.raises(FaultFoundError, match="again") as found:
        explore(job.begin(), job.steps, job.doubled)
    assert "the attempt fails" in found.value.trace
    once = Protocol(TWO, Budget(triggers=1, failures=1))
    explore(once.begin(), once.steps, once.doubled)


@pytest.mark.slow
@pytest.mark.parametrize("exactly_once", [True, False])
def test_states_that_count_as_one_behave_as_one(exactly_once):
    """Else the search would miss what it takes for known."""
    budget = Budget(triggers=3, failures=1, losses=1, expiries=1)
    one, each = (
        Protocol(LEVELS, budget, exactly_once, stepwise=True, concurrent=2, merges=merges) for merges in (True, False)
    )
    chance = random.Random(7)
    for _ in range(12):
        world, twin = one.begin(), each.begin()
        while (ways := list(one.steps(world))) and world.wrong is None:
            assert [label for label, _ in ways] == [label for label, _ in each.steps(twin)]
            number = chance.randrange(len(ways))
            world, twin = ways[number][1], list(each.steps(twin))[number][1]
            assert (world.channels, world.barriers, world.parts, world.wrong) == (
                twin.channels,
                twin.barriers,
                twin.parts,
                twin.wrong,
            )


# -- rules that are broken


def finds(what, graph, budget, **mode):
    with pytest.raises(FaultFoundError, match=what) as found:
        Protocol(graph, budget, **mode).run()
    return found.value.trace


def test_channels_that_are_not_held_back(monkeypatch):
    monkeypatch.setattr(
        real_subtask,
        "InputGate",
        lambda upstream, mailbox, settings, clock: InputGate(
            upstream, mailbox, replace(settings, at_least_once=True), clock
        ),
    )
    finds("is seen by A, and comes again", TWO, Budget())


def test_a_checkpoint_that_is_complete_without_all(monkeypatch):
    most = property(lambda self: self.acknowledged_count >= self.total_count - 1)
    monkeypatch.setattr(PendingCheckpoint, "is_fully_acknowledged", most)
    finds("checkpoint 1 completes with", TWO, Budget())


def test_results_after_the_barrier_that_they_belong_before(monkeypatch):
    monkeypatch.setattr(RealTimeSubtask, "_settle", lambda _: None)
    finds("is lost in front of B", LINE, Budget())


def test_acknowledgements_without_regard_to_their_checkpoint(monkeypatch):
    acknowledge = PendingCheckpoints.acknowledge

    def any_checkpoint(self, checkpoint_id, *args):
        known = [one.checkpoint_id for one in self]
        return acknowledge(self, checkpoint_id if checkpoint_id in known else max(known, default=0), *args)

    monkeypatch.setattr(PendingCheckpoints, "acknowledge", any_checkpoint)
    trace = finds("an acknowledgement of an older attempt counts", TWO, Budget(triggers=2, failures=1))
    assert "the attempt fails" in trace


def test_checkpoints_that_outlive_their_attempt(monkeypatch):
    monkeypatch.setattr(CheckpointFailures, "fail_with_attempt", lambda *_, **__: None)
    finds("an acknowledgement of an older attempt counts", TWO, Budget(failures=1))


def test_barriers_in_another_order_at_two_sources(monkeypatch):
    monkeypatch.setattr(TaskMailbox, "take", lambda self: self._mail.pop() if self._mail else None)
    finds("S1 takes checkpoint 2 behind 0", TWO, Budget(triggers=2), stepwise=True, concurrent=2)


def test_checkpoints_that_never_expire(monkeypatch):
    monkeypatch.setattr(PendingCheckpoint, "failure", lambda *_, **__: None)
    finds("don't expire", TWO, Budget(losses=1))
    finds("don't expire", TWO, Budget(expiries=1))


def test_older_checkpoints_that_are_not_subsumed(monkeypatch):
    monkeypatch.setattr(PendingCheckpoints, "older_than", lambda *_: [])
    finds("are under way, and checkpoint 2 is complete", LINE, Budget(triggers=2), concurrent=2)

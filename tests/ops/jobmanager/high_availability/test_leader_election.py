"""The election on a clock that the test moves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pystate.ops.jobmanager.high_availability.leader_election import LeaderElection, Term
from pystate.ops.jobmanager.high_availability.lease import LeaseTerms
from pystate.ops.jobmanager.high_availability.lease_files import LeaseFiles
from pystate.ops.jobmanager.leadership import LeadershipLostError
from tests.ops.jobmanager.harness import eventually

TERMS = LeaseTerms(duration=150, renew_deadline=100, retry_period=20)


class BreakableFiles(LeaseFiles):
    """A lease whose storage may be out of reach."""

    broken = False

    def highest_token(self) -> int:
        if self.broken:
            message = "Stale file handle"
            raise OSError(message)
        return super().highest_token()


class Candidate:
    """One job manager; its clock is its own."""

    def __init__(self, world: World, offset: int) -> None:
        self.store = BreakableFiles(world.folder)
        self.terms: list[Term] = []
        self.lost = 0
        entry = {"address": "127.0.0.1", "port": 1 + offset}
        self.election = LeaderElection(
            self.store, TERMS, entry, self.terms.append, self.lose, lambda: world.now + 1_000_000 * offset
        )

    def lose(self) -> None:
        self.lost += 1

    def step(self) -> None:
        try:
            self.election.step()
        except OSError:
            assert self.store.broken

    @property
    def leads(self) -> bool:
        return any(term.is_valid for term in self.terms)


class World:
    def __init__(self, folder: Path, candidates: int) -> None:
        self.folder = folder
        self.now = 0
        self.candidates = [Candidate(self, offset) for offset in range(candidates)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, 2)


def elected(candidate: Candidate, terms: int = 1) -> Term:
    eventually(lambda: len(candidate.terms) == terms)
    return candidate.terms[-1]


def test_the_first_leads_and_the_second_waits_for_as_long_as_it_renews(world):
    first, second = world.candidates
    first.step()
    term = elected(first)

    for _ in range(50):
        world.now += 20
        first.step()
        second.step()

    assert (term.token, term.is_valid, second.terms) == (1, True, [])
    term.check()


def test_the_second_takes_over_after_the_lease_and_the_first_has_stopped_before(world):
    first, second = world.candidates
    first.step()
    term = elected(first)
    second.step()

    world.now = 99
    assert term.is_valid
    world.now = 100
    assert not term.is_valid
    with pytest.raises(LeadershipLostError, match="not renewed in time"):
        term.check()
    world.now = 149
    second.step()
    assert second.terms == []
    world.now = 150
    second.step()

    assert elected(second).token == 2
    first.step()
    assert first.lost == 1
    assert [candidate.leads for candidate in world.candidates] == [False, True]


def test_one_that_was_replaced_within_its_deadline_learns_it_before_it_acts(world):
    first, second = world.candidates
    first.step()
    term = elected(first)
    second.store.take(2, {"address": "127.0.0.1", "port": 2})

    assert term.is_valid  # it has not asked yet
    with pytest.raises(LeadershipLostError, match="term 2; this one had term 1"):
        term.check()
    assert not term.is_valid


def test_a_storage_that_fails_for_a_while_costs_no_leadership(world):
    first, _ = world.candidates
    first.step()
    term = elected(first)
    first.store.broken = True

    world.now = 60
    first.step()
    with pytest.raises(LeadershipLostError, match="Stale file handle"):
        term.check()
    assert (term.is_valid, first.lost) == (True, 0)

    first.store.broken = False
    first.step()
    world.now = 159
    term.check()


def test_a_storage_that_fails_for_longer_than_the_deadline_ends_the_term(world):
    first, second = world.candidates
    first.step()
    term = elected(first)
    first.store.broken = True
    world.now = 100
    first.step()

    assert (term.is_valid, first.lost) == (False, 1)
    first.store.broken = False
    second.step()
    world.now = 260
    second.step()
    first.step()
    assert elected(second).token == 2


def test_a_lease_that_is_given_back_is_taken_at_once(world):
    first, second = world.candidates
    first.step()
    term = elected(first)
    second.step()
    first.election.resign()

    assert not term.is_valid
    second.step()
    assert elected(second).token == 2


@pytest.mark.parametrize("seed", range(30))
def test_never_do_two_lead_and_never_does_a_token_come_twice(tmp_path, seed):
    world = World(tmp_path, 3)
    dice = random.Random(seed)
    asleep_until = [0, 0, 0]
    for _ in range(400):
        world.now += dice.choice((1, 5, 20, 60))
        number = dice.randrange(3)
        candidate = world.candidates[number]
        if world.now < asleep_until[number]:
            continue
        if dice.random() < 0.03:
            asleep_until[number] = world.now + dice.randrange(1000)
            continue
        candidate.store.broken = dice.random() < 0.1
        before = candidate.store._tokens("leader")
        candidate.step()
        candidate.store.broken = False
        if candidate.store._tokens("leader") != before:
            token = candidate.store.highest_token()
            eventually(lambda one=candidate, token=token: token in [term.token for term in one.terms])
        assert sum(one.leads for one in world.candidates) <= 1
    tokens = [term.token for candidate in world.candidates for term in candidate.terms]
    assert sorted(tokens) == list(range(1, len(tokens) + 1))
    assert len(tokens) > 3

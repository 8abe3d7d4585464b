"""Which spare drivers there are to be, when, and which one a job gets."""

from __future__ import annotations

import pytest

from pystate.ops.jobmanager.spare_drivers.spare_kind import SpareKind
from pystate.ops.jobmanager.spare_drivers.spare_pool import Spare, SparePool, SpareState

LATER = 1_000_000


def kind(directory: str) -> SpareKind:
    return SpareKind("/usr/bin/python", directory, frozenset(), frozenset({("parallelism.default", "2")}))


A, B, C = kind("/a"), kind("/b"), kind("/c")


def start(pool: SparePool, name: str, now: int = 0) -> None:
    """Start the one that is missing, and let it get warm."""
    missing = pool.missing()
    assert missing is not None
    pool.added(Spare(name, missing, now))
    pool.ready(name, now)


def test_none_is_wanted_before_a_job_has_shown_of_which_kind():
    assert SparePool(1).missing() is None


def test_one_is_wanted_of_the_kind_of_the_last_job_and_not_while_that_starts():
    pool = SparePool(1)
    pool.used(A, 5)
    assert pool.missing() == A
    assert pool.due_in(5) == 10_000
    assert pool.due_in(10_005) == 0


def test_a_job_gets_one_of_its_kind_that_is_warm_once():
    pool = SparePool(1)
    pool.used(A, 0)
    pool.added(Spare("one", A, 0))
    assert pool.take(A) is None, "it still gets warm"
    pool.ready("one", 10)
    assert pool.take(B) is None
    taken = pool.take(A)
    assert taken is not None
    assert (taken.spare_id, taken.state) == ("one", SpareState.READY)
    assert pool.take(A) is None
    assert pool.missing() == A, "another one takes its place"


def test_one_that_is_reserved_is_wanted_at_once_and_given_even_if_it_still_gets_warm():
    pool = SparePool(0)
    assert pool.take(A) is None
    pool.reserve("job", A, until=100)
    assert (pool.missing(), pool.due_in(0)) == (A, 0)
    pool.added(Spare("one", A, 0))
    assert pool.missing() is None
    assert pool.surplus() == []
    taken = pool.take(A)
    assert taken is not None
    assert taken.state is SpareState.WARMING
    assert pool.missing() is None, "one job was to come"


def test_one_that_is_reserved_practises_only_if_all_jobs_that_are_to_come_leave_it_the_time():
    pool = SparePool(1)
    assert pool.practises(A), "nobody waits for it"
    pool.reserve("later", A, until=100, practises=True)
    assert pool.practises(A)
    pool.reserve("soon", A, until=100)
    assert not pool.practises(A)
    assert pool.practises(B)
    pool.release("soon")
    assert pool.practises(A)
    pool.release("later")


def test_one_that_is_reserved_does_not_wait_for_others_nor_take_their_place():
    pool = SparePool(1)
    pool.used(A, 0)
    pool.added(Spare("one", A, 0))
    assert pool.due_in(20_000) == 10_000, "it still gets warm"
    pool.reserve("job", B, until=100)
    assert (pool.missing(), pool.due_in(0)) == (B, 0)
    pool.added(Spare("two", B, 0))
    assert pool.surplus() == []
    assert pool.take(A) is None, "it isn't reserved, and not warm"


@pytest.mark.parametrize("how", ["released", "expired", "used"])
def test_a_reservation_ends(how):
    pool = SparePool(0)
    pool.reserve("job", A, until=100)
    pool.added(Spare("one", A, 0))
    pool.expire(99)
    assert pool.reserved == [A]
    if how == "released":
        pool.release("job")
        pool.release("job")
    elif how == "expired":
        pool.expire(100)
    else:
        assert pool.take(A) is not None
        pool.added(Spare("two", A, 0))
    assert pool.reserved == []
    assert [spare.kind for spare in pool.surplus()] == [A]


def test_a_new_kind_takes_the_place_of_the_one_that_was_used_longest_ago():
    pool = SparePool(2)
    for one in (A, B):
        pool.used(one, 0)
    start(pool, "first")
    start(pool, "second")
    assert {spare.kind for spare in pool.spares} == {A, B}
    pool.used(A, 0)
    pool.used(C, 0)
    assert [spare.kind for spare in pool.surplus()] == [B]
    assert pool.missing() == C


def test_with_fewer_kinds_than_places_there_are_several_of_the_latest():
    pool = SparePool(2)
    pool.used(A, 0)
    start(pool, "first")
    start(pool, "second")
    assert [spare.kind for spare in pool.spares] == [A, A]
    assert pool.missing() is None
    pool.used(B, 0)
    assert [spare.kind for spare in pool.surplus()] == [A]


def test_one_gets_warm_at_a_time():
    pool = SparePool(2)
    pool.used(A, 0)
    pool.added(Spare("one", A, LATER))
    assert pool.missing() == A
    assert pool.due_in(LATER) > 0
    pool.ready("one", LATER)
    assert pool.due_in(LATER) == 0


def test_the_pause_after_those_that_die_grows_until_one_gets_warm():
    pool = SparePool(1)
    pool.used(A, 0)
    pauses = []
    for number in range(8):
        pool.added(Spare(str(number), A, LATER))
        pauses.append(pool.lost(str(number), LATER))
    assert pauses == [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 600_000, 600_000]
    assert pool.due_in(LATER) == 600_000
    start(pool, "good", LATER)
    assert pool.lost("good", LATER) == 10_000


@pytest.mark.parametrize("leave", [lambda pool: pool.take(A), lambda pool: pool.drop("one")])
def test_the_end_of_one_that_was_taken_or_dropped_is_no_loss(leave):
    pool = SparePool(1)
    pool.used(A, 0)
    start(pool, "one")
    leave(pool)
    assert pool.lost("one", LATER) is None
    assert pool.due_in(LATER) == 0

"""Chandy and Lamport's snapshots in all runs of small systems, and what graphs without cycles can leave out."""

from itertools import permutations

import pytest

from tests.model.chandy_lamport import ChandyLamport
from tests.model.programs import Chatter, Dataflow, Named, Ring, inconsistency, is_deadlocked
from tests.model.search import FaultFoundError, explore

P1, P2, P3 = range(3)
TWO = [(P1, P2), (P2, P1)]
ALL = list(permutations(range(3), 2))


# the run of the lecture notes (UC Santa Cruz, CSE 138): time goes downwards
#
#     P1                    P2                   P3
#     A (to itself)         |                    |
#     B <------------------ F                    |
#     S1 == marker =======> | (late)             |
#     |  == marker ==========================>   S3
#     |                     G <----------------- I    (I is sent in front of S3)
#     |                     H --.                |
#     C (A arrives)         |    '               |
#     D <------------------------'               |
#     | <========================== marker ====  |
#     |                     S2 <=== marker ====  |
#     | <===== marker ====  |  ==== marker ====> |
def test_the_run_of_the_lecture_notes():
    model = ChandyLamport(3, [(P1, P1), *ALL], Named())
    world = model.begin()

    def send(sender, target):
        nonlocal world
        world = model.act(world, sender, target)

    def arrive(sender, target):
        nonlocal world
        world = model.deliver(world, (sender, target))

    send(P1, P1)  # A
    send(P2, P1)  # F
    arrive(P2, P1)  # B
    send(P3, P2)  # I
    arrive(P3, P2)  # G
    world = model.start(world, P1)
    arrive(P1, P1)  # C
    send(P2, P1)  # H
    arrive(P1, P3)  # P3 follows
    arrive(P2, P1)  # D
    arrive(P3, P1)
    assert world.recorded[P2] is None
    arrive(P3, P2)  # P2 follows, though the marker of P1 was sent first
    for channel in [(P1, P1), (P1, P2), (P2, P1)]:
        arrive(*channel)
        assert not model.is_complete(world)
    arrive(P2, P3)
    assert model.is_complete(world)

    assert world.recorded == (("A", "F -> B"), ("F", "I -> G", "H"), ("I",))
    states = model.channel_states(world)
    assert states.pop("C11") == ("A",)
    assert states.pop("C21") == ("H",)
    assert "H -> D" in world.states[P1]
    assert set(states) == {"C12", "C13", "C23", "C31", "C32"}
    assert not any(states.values())


@pytest.mark.parametrize(
    ("processes", "channels", "messages"),
    [(2, TWO, (2, 2)), (2, [(P1, P1), *TWO], (2, 1)), (3, [(P1, P2), (P2, P3), (P3, P1)], (1, 1, 1)), (3, ALL, (1, 0, 0))],
    ids=["two", "to itself", "ring", "each to each"],
)
def test_whoever_starts_whatever_overlaps_the_cut_is_consistent(processes, channels, messages):
    model = ChandyLamport(processes, channels, Chatter(channels, messages))
    explored = explore(model.begin(), model.steps, lambda world: inconsistency(model, world))
    assert all(map(model.is_complete, explored.ends))  # it ends when the channels of each process are closed
    assert any(any(world.messages) for world in explored.ends)


def test_it_ends_with_one_starter_where_all_can_be_reached_from_it():
    channels = [(P1, P2), (P2, P3), (P3, P1)]
    for starter in range(3):
        model = ChandyLamport(3, channels, Chatter(channels, (1, 0, 1)), [starter])
        explored = explore(model.begin(), model.steps, lambda world, model=model: inconsistency(model, world))
        assert all(map(model.is_complete, explored.ends))


def test_it_needs_channels_that_keep_their_order():
    model = ChandyLamport(2, TWO, Chatter(TWO, (1, 1)), ordered=False)
    with pytest.raises(FaultFoundError, match="under way"):
        explore(model.begin(), model.steps, lambda world: inconsistency(model, world))


# -- a property that stays once it holds


def ring(asks):
    program = Ring(asks)
    return ChandyLamport(len(asks), program.channels, program)


def test_a_snapshot_tells_of_a_deadlock_and_only_of_one_that_is_there():
    model = ring((1, 1, 1))

    def wrong(world):
        if not model.is_complete(world):
            return None
        told = is_deadlocked(model.snapshot(world))
        return "tells of a deadlock that isn't there" if told and not is_deadlocked(world) else None

    ends = explore(model.begin(), model.steps, wrong).ends
    assert {is_deadlocked(model.snapshot(world)) for world in ends} == {True, False}


def test_a_deadlock_is_told_by_each_snapshot_that_begins_after_it():
    model = ring((1, 1, 1))
    world = model.begin()
    for process in range(3):
        world = model.act(world, process)
    assert is_deadlocked(world)
    for end in explore(world, model.steps).ends:
        assert is_deadlocked(end)
        assert is_deadlocked(model.snapshot(end))


def test_who_asks_one_after_the_other_without_markers_hears_of_deadlocks_that_never_were():
    """Why a snapshot is needed at all."""
    model = ring((1, 1))
    world = model.act(model.begin(), P1)
    first = world.states[P1]
    world = model.deliver(world, (P1, P2))
    world = model.deliver(world, (P2, P1))
    world = model.act(world, P2)
    assert first.waits
    assert world.states[P2].waits
    assert not is_deadlocked(world)


# -- graphs without cycles, whose sources can be wound back

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]
TWO_SOURCES = [(0, 2), (1, 2), (2, 3)]
GRAPHS = pytest.mark.parametrize(
    ("channels", "records"), [(DIAMOND, {0: 3}), (TWO_SOURCES, {0: 2, 1: 1})], ids=["diamond", "two sources"]
)


@GRAPHS
def test_held_back_channels_have_no_state_and_a_restart_brings_each_record_once(channels, records):
    flow = Dataflow(channels, records)
    model = ChandyLamport(4, channels, flow, list(records), aligned=True)
    plain = ChandyLamport(4, channels, flow, [])

    def wrong(world):
        if not model.is_complete(world):
            return None
        if any(world.messages):
            return "a channel has a state"
        seen = flow.run(plain, plain.snapshot(world))
        return None if seen == flow.once() else f"{seen}"

    ends = explore(model.begin(), model.steps, wrong).ends
    assert ends
    assert all(map(model.is_complete, ends))


@GRAPHS
def test_without_holding_back_channel_states_are_needed(channels, records):
    flow = Dataflow(channels, records)
    model = ChandyLamport(4, channels, flow, list(records))
    plain = ChandyLamport(4, channels, flow, [])
    without = []

    def wrong(world):
        if not model.is_complete(world):
            return None
        snapshot = plain.snapshot(world)
        without.append(flow.run(plain, snapshot._replace(channels=((),) * len(channels))))
        seen = flow.run(plain, snapshot)
        return None if seen == flow.once() else f"{seen}"

    explore(model.begin(), model.steps, wrong)
    assert any(seen != flow.once() for seen in without)
    assert all(seen <= flow.once() for seen in without)

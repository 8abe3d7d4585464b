"""A subtask that waits for room downstream still takes its part of each checkpoint."""

from __future__ import annotations

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, FrameKind, pack_frame, pack_message
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from tests.model.real_subtask import ROOM, Graph, RealSubtask

GRAPH = Graph(edges=(("a", "b"), ("b", "c")), records=(("a", 1),))
LATER = 1 << 50


def subtask(settings=None):
    return RealSubtask(GRAPH, "b", exactly_once=True, settings=settings)


def arrives(one, number, kind, data=b""):
    return one.apply(("frame", pack_frame((0, 0), kind, 0, number, data)[PLACE_SIZE:]))


def barrier(checkpoint_id):
    return pack_message(CheckpointBarrier(checkpoint_id, "file:/nowhere", 0, LATER).to_plain())


def pause(one):
    one.roots()._output.pause._checkpoint = 1


def test_at_the_end_of_data_a_pause_holds_no_barrier_up():
    one = subtask()
    arrives(one, 0, FrameKind.END_OF_DATA)
    one.apply(("step",))
    pause(one)
    arrives(one, 1, FrameKind.BARRIER, barrier(2))
    assert ("part", 2, ((), 0, ())) in one.apply(("step",))


def test_before_the_end_a_barrier_that_waits_for_its_turn_waits_for_the_pause():
    one = subtask()
    pause(one)
    arrives(one, 0, FrameKind.BARRIER, barrier(2))
    assert one.apply(("step",)) == []
    one.roots()._output.pause.end(1)
    assert ("part", 2, ((), 0, ())) in one.apply(("step",))


def test_a_resting_subtask_is_woken_by_a_barrier_that_will_overtake():
    one = subtask(InputSettings(unaligned=True, aligned_timeout_ms=50, memory_bytes=ROOM, room_bytes=ROOM // 2))
    rested = []
    one.roots()._rest = lambda due, is_roused: rested.append((due, is_roused))
    pause(one)
    one.apply(("step",))
    (_, is_roused) = rested.pop()
    assert not is_roused()
    arrives(one, 0, FrameKind.BARRIER, barrier(2))
    assert is_roused(), "it would rest until somebody else wakes it"
    one.apply(("step",))
    due, is_roused = rested.pop()
    assert (due, is_roused()) == (LATER + 50, False)

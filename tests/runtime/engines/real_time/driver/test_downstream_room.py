"""Which tasks are told that there is room before the next ones."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.driver.downstream_room import DownstreamRoom
from pystate.runtime.plan.channels import JobChannels, TaskChannels

CHANNELS = JobChannels(
    {
        "s": TaskChannels(2, 128, 0, 0, (), {}),
        "a": TaskChannels(2, 128, 1, 0, (("s", 0), ("s", 1)), {}),
        "b": TaskChannels(1, 128, 2, 0, (("a", 0), ("a", 1)), {}),
    },
    (2, 2, 1),
    {"s": ("a",), "a": ("b",), "b": ()},
)


class Slots:
    """Slots whose inputs have room, or not."""

    def __init__(self):
        self.has_room = [{"s", "a", "b"}, {"s", "a"}]
        self.asked = 0
        self.told = []
        self.paused = []

    def call_all(self, op, arguments):
        if op == "has_room":
            self.asked += 1
            return {index: sorted(room) for index, room in enumerate(self.has_room)}
        if op == "pause":
            self.paused.append(arguments(0)["checkpoint_id"])
            return
        assert op == "room_made"
        self.told.append((arguments(0)["checkpoint_id"], arguments(0)["uids"]))


def room(clock=lambda: 0, **options):
    slots = Slots()
    settings = {"execution.checkpointing.unaligned.enabled": "true", **options}
    return DownstreamRoom(CHANNELS, Configuration(settings), slots, clock), slots


def barrier(number, *, savepoint=False):
    return CheckpointBarrier(number, "", 0, 0, savepoint=savepoint)


def test_each_task_goes_on_when_all_subtasks_of_the_next_have_room():
    one, slots = room()
    slots.has_room = [{"s", "a"}, {"s"}]  # b is full, and one subtask of a
    one.barrier_sent(barrier(7))
    one.look()
    slots.has_room[0].add("b")
    one.look()
    slots.has_room[1].add("a")
    one.look()
    assert slots.told == [(7, ["b"]), (7, ["a", "b"]), (7, ["s", "a", "b"])]


def test_nobody_is_asked_when_all_have_been_told_and_before_the_next_barrier():
    one, slots = room()
    one.look()
    assert slots.asked == 0
    one.barrier_sent(barrier(7))
    one.look()
    one.look()
    assert slots.asked == 1
    one.barrier_sent(barrier(8))
    one.look()
    assert [checkpoint_id for checkpoint_id, _ in slots.told] == [7, 8]


def test_nobody_waits_after_barriers_that_overtake_nothing():
    one, slots = room()
    one.barrier_sent(barrier(7, savepoint=True))
    one.look()
    aligned, others = room(**{"execution.checkpointing.unaligned.enabled": "false"})
    aligned.barrier_sent(barrier(7))
    aligned.look()
    assert slots.asked == others.asked == 0


def test_after_a_timeout_subtasks_wait_from_when_barriers_overtake():
    now = [0]
    one, slots = room(lambda: now[0], **{"execution.checkpointing.aligned-checkpoint-timeout": "1 s"})
    slots.has_room = [set(), set()]
    one.barrier_sent(barrier(7))
    one.look()
    assert (slots.paused, slots.told) == ([], [])
    now[0] = 1000
    one.look()
    one.look()
    assert slots.paused == [7]
    assert slots.told == [(7, ["b"]), (7, ["b"])]

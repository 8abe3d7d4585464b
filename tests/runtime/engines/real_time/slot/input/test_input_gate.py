"""A subtask's input between the thread of its relay and its own: order, room, barriers that overtake, its end."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pystate.common.errors import ControlError
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import (
    PLACE_SIZE,
    Frame,
    FrameKind,
    pack_frame,
    pack_message,
    unpack_frame,
)
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelStateReader
from pystate.runtime.engines.real_time.slot.input.input_events import InputComplete, TakeCheckpoint
from pystate.runtime.engines.real_time.slot.input.input_gate import GateEvent, InputGate
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from tests.waiting import LONGEST_S, wait_until

ROOM = 1000
UPSTREAM = (("s", 0), ("s", 1))


def barrier(number: int, *, at: int = 0, savepoint: bool = False) -> CheckpointBarrier:
    return CheckpointBarrier(number, "", 0, at, savepoint=savepoint)


class Bench:
    """A gate whose relay's thread is one's own, or another."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0
        self.mailbox = TaskMailbox()
        settings = InputSettings(memory_bytes=ROOM, room_bytes=ROOM // 2, **settings)
        self.gate = InputGate(UPSTREAM, self.mailbox, settings, lambda: self.now)
        self.sent = [0, 0]

    def frame(self, channel: int, kind: FrameKind, data: bytes) -> Frame:
        packed = pack_frame((0, 0), kind, channel, self.sent[channel], data, rows=1)
        self.sent[channel] += 1
        return unpack_frame(packed[PLACE_SIZE:])

    def data(self, channel: int, text: str) -> None:
        self.gate.receive(self.frame(channel, FrameKind.BATCH, text.encode()))

    def barrier(self, channel: int, one: CheckpointBarrier) -> None:
        self.gate.receive(self.frame(channel, FrameKind.BARRIER, pack_message(one.to_plain())))

    def beside(self, do: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=do, daemon=True)
        thread.start()
        return thread

    def drain(self) -> list[object]:
        done: list[object] = []
        while (event := self.gate.poll()) is not None:
            done.append(short(event))
        return done


def short(event: GateEvent) -> object:
    if isinstance(event, Frame):
        return bytes(event.data).decode()
    return event.barrier.checkpoint_id if isinstance(event, TakeCheckpoint) else event


def is_waiting(thread: threading.Thread) -> bool:
    thread.join(0.2)
    return thread.is_alive()


def test_what_comes_after_a_barrier_waits_for_the_other_channel():
    bench = Bench()
    bench.data(0, "a")
    bench.barrier(0, barrier(1))
    bench.data(0, "behind")
    bench.data(1, "b")
    assert bench.drain() == ["a", "b"]
    bench.barrier(1, barrier(1))
    assert bench.drain() == [1, "behind"]


def test_a_newer_barrier_does_not_overtake_what_is_held_back_before_it():
    bench = Bench()
    bench.barrier(0, barrier(1))
    bench.data(0, "between")
    bench.barrier(0, barrier(2))
    bench.data(0, "behind")
    bench.barrier(1, barrier(1))
    assert bench.drain() == [1, "between"]
    bench.barrier(1, barrier(2))
    assert bench.drain() == [2, "behind"]


def test_what_is_held_back_leaves_room_for_the_channel_that_is_waited_for():
    bench = Bench()
    bench.barrier(0, barrier(1))
    assert bench.drain() == []
    for _ in range(10):
        bench.data(0, "x" * ROOM)
    assert bench.gate.spilled_bytes > 5 * ROOM
    bench.data(1, "b")
    bench.barrier(1, barrier(1))
    assert bench.drain() == ["b", 1, *["x" * ROOM] * 10]
    assert bench.gate.spilled_bytes == 0


def test_a_relay_waits_until_there_is_room_again():
    bench = Bench()
    bench.data(0, "x" * ROOM)
    thread = bench.beside(lambda: bench.data(0, "y"))
    assert is_waiting(thread)
    assert bench.drain() == ["x" * ROOM]
    thread.join(LONGEST_S)
    assert bench.drain() == ["y"]


def test_there_is_room_for_all_that_is_before_an_announced_barrier_and_for_no_more():
    bench = Bench(unaligned=True)
    bench.data(0, "x" * ROOM)
    thread = bench.beside(lambda: [bench.data(0, "y" * ROOM), bench.barrier(0, barrier(1)), bench.data(1, "z")])
    assert is_waiting(thread)
    bench.gate.announce(barrier(1))
    thread.join(LONGEST_S)
    assert short(bench.gate.poll()) == 1, "at once, in front of all data"
    thread = bench.beside(lambda: [bench.barrier(1, barrier(1)), bench.data(1, "behind")])
    assert is_waiting(thread), "the last barrier is there: it is as full as before"
    complete = bench.gate.poll_checkpoint()
    assert isinstance(complete, InputComplete)
    assert complete.input.channel_state is not None
    kept = ChannelStateReader(io.BytesIO(complete.input.channel_state.to_bytes()))
    texts = [(channel, bytes(unpack_frame(one.data).data).decode()) for channel, one in kept]  # type: ignore[union-attr]
    assert texts == [(0, "x" * ROOM), (0, "y" * ROOM), (1, "z")]
    given = bench.drain()
    thread.join(LONGEST_S)
    assert sorted(map(str, given + bench.drain())) == ["behind", "x" * ROOM, "y" * ROOM, "z"]


def test_an_announced_barrier_makes_room_when_its_time_has_come():
    bench = Bench(unaligned=True, aligned_timeout_ms=100)
    bench.data(0, "x" * ROOM)
    bench.gate.announce(barrier(1))
    thread = bench.beside(lambda: bench.data(0, "y"))
    assert is_waiting(thread)
    bench.now = 100
    thread.join(LONGEST_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("one", [barrier(1, savepoint=True), barrier(1)], ids=["savepoint", "given up"])
def test_no_room_for_the_barrier_of_a_savepoint_and_of_a_checkpoint_that_is_over(one):
    bench = Bench(unaligned=True)
    bench.data(0, "x" * ROOM)
    bench.gate.announce(one)
    if not one.savepoint:
        bench.gate.abort(1)
    assert is_waiting(bench.beside(lambda: bench.data(0, "y")))
    bench.gate.close()
    bench.mailbox.close()


@pytest.mark.parametrize("skipped", [-1, 1])
def test_a_frame_that_is_lost_or_repeated_is_found(skipped):
    bench = Bench()
    bench.data(0, "a")
    bench.sent[0] += skipped
    with pytest.raises(ControlError, match="came in the place of 1"):
        bench.data(0, "b")


def test_a_relay_that_waits_goes_when_the_subtask_ends():
    bench = Bench()
    bench.data(0, "x" * ROOM)
    thread = bench.beside(lambda: bench.data(0, "y"))
    wait_until(thread.is_alive)
    bench.gate.close()
    bench.mailbox.close()
    thread.join(LONGEST_S)
    assert not thread.is_alive()
    assert bench.gate.poll() is None


def test_a_channel_that_a_barrier_holds_back_makes_room_for_the_others() -> None:
    bench = Bench()
    bench.barrier(0, barrier(1))
    bench.data(0, "after" * ROOM)
    other = bench.beside(lambda: bench.data(1, "before"))
    assert is_waiting(other)
    assert bench.gate.poll() is None  # the barrier was taken: what follows it waits for the other channel's
    assert not is_waiting(other)
    bench.barrier(1, barrier(1))
    assert bench.drain() == ["before", 1, "after" * ROOM]

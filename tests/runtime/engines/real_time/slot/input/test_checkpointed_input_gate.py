"""What a subtask's input does with barriers: one test a rule."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from pystate.core.snapshot.handles.input_channel_state import ChannelStateRescaleError
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelState, ChannelStateReader
from pystate.runtime.engines.real_time.slot.input.checkpointed_input_gate import CheckpointedInputGate
from pystate.runtime.engines.real_time.slot.input.input_events import (
    AllChannelsEnded,
    CheckpointAborted,
    InputCheckpoint,
    InputComplete,
    InputElement,
    InputEvent,
    TakeCheckpoint,
)
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.stream_elements import (
    Buffer,
    CancelCheckpointMarker,
    EndOfPartition,
    InFlightElement,
    Watermark,
    WatermarkStatus,
)

SUBSUMED = CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED
CANCELLED = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
ALIGNED = InputSettings()
UNALIGNED = InputSettings(unaligned=True)
ALTERNATING = InputSettings(unaligned=True, aligned_timeout_ms=100)
AT_LEAST_ONCE = InputSettings(at_least_once=True)


class Clock:
    now = 1000

    def __call__(self) -> int:
        return self.now


def barrier(number: int, *, savepoint: bool = False, unaligned: bool = False, at: int = 1000) -> CheckpointBarrier:
    return CheckpointBarrier(number, "", 0, at, savepoint=savepoint, unaligned=unaligned)


def data(text: str) -> Buffer:
    return Buffer(text.encode(), 1)


class Bench:
    """A gate, with what it has its thread do in short."""

    def __init__(self, settings: InputSettings, channels: int = 2) -> None:
        self.clock = Clock()
        self.gate = CheckpointedInputGate(channels, settings, self.clock)

    def drain(self) -> list[object]:
        done: list[object] = []
        while (event := self.gate.poll()) is not None:
            done.append(short(event))
        return done


def short(event: InputEvent) -> object:
    """Return data as its text, a checkpoint to be taken as its number, others as they are."""
    if isinstance(event, InputElement) and isinstance(event.element, Buffer):
        return event.element.data.decode()
    if isinstance(event, TakeCheckpoint):
        return event.barrier.checkpoint_id
    return event


def persisted(state: ChannelState | None) -> list[tuple[int, InFlightElement]]:
    return [] if state is None else list(ChannelStateReader(io.BytesIO(state.to_bytes())))


# -- aligned


def test_a_channel_whose_barrier_has_come_is_held_back_until_the_last_one_comes() -> None:
    bench = Bench(ALIGNED)
    bench.gate.add(0, data("a"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind"))
    assert bench.drain() == ["a"]
    assert bench.gate.is_held_back(0)
    bench.gate.add(1, data("b"))
    assert bench.drain() == ["b"]
    bench.gate.add(1, barrier(1))
    assert bench.drain() == [1, "behind"]
    assert not bench.gate.is_held_back(0)


def test_the_figures_of_an_alignment_are_those_between_its_first_and_last_barrier() -> None:
    bench = Bench(ALIGNED)
    bench.clock.now = 1010
    bench.gate.add(1, data("before"))
    bench.gate.add(0, barrier(1))
    bench.drain()
    bench.gate.add(1, data("meanwhile"))
    bench.drain()
    bench.clock.now = 1050
    bench.gate.add(1, barrier(1))
    event = bench.gate.poll()
    expected = InputCheckpoint(1, start_delay_ms=10, alignment_ms=40, processed_data=len("meanwhile"))
    before = len("before")  # handed out behind the barrier of the other channel, or in front of it, as turns go
    assert isinstance(event, TakeCheckpoint)
    assert event.input in (
        expected,
        InputCheckpoint(1, start_delay_ms=10, alignment_ms=40, processed_data=len("meanwhile") + before),
    )


def test_what_is_held_back_until_the_last_barrier_comes_counts_as_buffered() -> None:
    bench = Bench(ALIGNED)
    for channel in (0, 1):
        bench.gate.add(channel, data("in front"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("queued behind it"))
    bench.drain()
    bench.gate.add(0, data("later"))
    bench.gate.add(1, data("meanwhile"))
    bench.drain()
    bench.gate.add(1, barrier(1))
    bench.gate.add(1, data("behind the last one, which nobody waits for"))
    event = bench.gate.poll()
    assert isinstance(event, TakeCheckpoint)
    assert event.input is not None
    assert event.input.buffered_data == len("queued behind it" + "later")


def test_what_had_been_held_back_when_barriers_began_to_overtake_counts_as_buffered() -> None:
    bench = Bench(ALTERNATING)
    bench.gate.add(0, barrier(1))
    bench.drain()
    bench.gate.add(0, data("held"))
    bench.clock.now = 1100
    assert isinstance(bench.gate.poll(), TakeCheckpoint)
    bench.gate.add(0, data("free"))
    bench.gate.add(1, barrier(1))
    complete = bench.gate.poll()
    assert isinstance(complete, InputComplete)
    assert (complete.input.buffered_data, complete.input.unaligned) == (len("held"), True)


@pytest.mark.parametrize("settings", [UNALIGNED, AT_LEAST_ONCE])
def test_where_nothing_is_held_back_nothing_is_buffered(settings: InputSettings) -> None:
    bench = Bench(settings)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind"))
    bench.gate.add(1, data("b"))
    bench.drain()
    bench.gate.add(1, barrier(1))
    measured = [one for event in iter(bench.gate.poll, None) if (one := getattr(event, "input", None)) is not None]
    assert [one.buffered_data for one in measured] == [0]


def test_a_newer_barrier_ends_the_wait_for_an_older_checkpoint() -> None:
    bench = Bench(ALIGNED, 3)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind one"))
    bench.drain()
    bench.gate.add(1, barrier(2))
    bench.gate.add(1, data("behind two"))
    assert bench.drain() == [CheckpointAborted(1, SUBSUMED), "behind one"]
    bench.gate.add(2, barrier(1))
    bench.gate.add(2, barrier(2))
    bench.gate.add(0, barrier(2))
    assert bench.drain() == [2, "behind two"]


def test_the_barrier_of_a_checkpoint_that_is_over_is_ignored() -> None:
    bench = Bench(ALIGNED)
    for number in (2, 1, 2):
        bench.gate.add(0, barrier(number))
        bench.gate.add(1, barrier(number))
    bench.gate.add(0, data("on"))
    assert bench.drain() == [2, "on"]


def test_the_end_of_a_channel_counts_as_its_barrier() -> None:
    bench = Bench(ALIGNED)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind"))
    bench.gate.add(1, EndOfPartition())
    assert bench.drain() == [1, "behind"]
    bench.gate.add(0, barrier(2))
    bench.gate.add(0, EndOfPartition())
    assert bench.drain() == [2, AllChannelsEnded()]


@pytest.mark.parametrize("settings", [ALIGNED, ALTERNATING, AT_LEAST_ONCE])
def test_a_cancel_marker_ends_the_wait_and_comes_once(settings: InputSettings) -> None:
    bench = Bench(settings)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind"))
    bench.drain()
    bench.gate.add(1, CancelCheckpointMarker(1))
    bench.gate.add(1, CancelCheckpointMarker(1))
    assert [one for one in bench.drain() if one != "behind"] == [CheckpointAborted(1, CANCELLED)]
    assert not bench.gate.is_held_back(0)
    assert bench.gate.queued_bytes == 0
    assert bench.gate.next_deadline() is None


@pytest.mark.parametrize("settings", [ALIGNED, UNALIGNED, ALTERNATING, AT_LEAST_ONCE])
def test_barriers_after_the_cancel_marker_of_another_channel_hold_nothing_back(settings: InputSettings) -> None:
    bench = Bench(settings)
    bench.gate.add(0, CancelCheckpointMarker(1))
    assert bench.drain() == [CheckpointAborted(1, CANCELLED)]
    bench.gate.add(1, barrier(1))
    bench.gate.add(1, data("on"))
    assert bench.drain() == ["on"]


def test_a_checkpoint_that_the_coordinator_gave_up_holds_nothing_back() -> None:
    bench = Bench(ALIGNED)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("on"))
    bench.drain()
    bench.gate.abort_checkpoint(1)
    assert bench.drain() == [CheckpointAborted(1, CANCELLED), "on"]


@pytest.mark.parametrize("settings", [ALIGNED, UNALIGNED, AT_LEAST_ONCE], ids=["aligned", "unaligned", "at least once"])
@pytest.mark.parametrize("arrived", [True, False])
def test_a_newer_checkpoint_that_the_coordinator_gave_up_leaves_an_older_savepoint_alone(settings, arrived) -> None:
    bench = Bench(settings)
    savepoint = barrier(1, savepoint=True)
    if arrived:
        bench.gate.add(0, savepoint)
        bench.drain()
    bench.gate.abort_checkpoint(2)
    if not arrived:
        bench.gate.add(0, savepoint)
    bench.gate.add(1, savepoint)
    assert 1 in bench.drain()
    for channel in (0, 1):
        bench.gate.add(channel, barrier(2))
    assert bench.drain() == []


def test_what_follows_the_barrier_of_a_checkpoint_that_was_given_up_before_it_is_not_held_back() -> None:
    bench = Bench(ALIGNED)
    bench.gate.abort_checkpoint(1)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("on"))
    assert bench.drain() == ["on"]
    bench.gate.add(0, barrier(2))
    bench.gate.add(1, barrier(2))
    assert bench.drain() == [2]


# -- at least once


def test_at_least_once_holds_nothing_back_and_takes_the_checkpoint_at_the_last_barrier() -> None:
    bench = Bench(AT_LEAST_ONCE)
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind"))
    bench.gate.add(1, data("b"))
    assert sorted(map(str, bench.drain())) == ["b", "behind"]
    bench.gate.add(1, barrier(1))
    assert bench.drain() == [1]


def test_at_least_once_counts_several_checkpoints_at_once_and_the_newest_ends_the_older() -> None:
    bench = Bench(AT_LEAST_ONCE)
    for number in (1, 2, 3):
        bench.gate.add(0, barrier(number))
    bench.gate.add(1, barrier(2))
    assert bench.drain() == [CheckpointAborted(1, SUBSUMED), 2]
    bench.gate.add(1, EndOfPartition())
    assert bench.drain() == [3]


# -- unaligned


def test_the_first_barrier_overtakes_and_what_it_overtakes_is_channel_state_until_the_last_one() -> None:
    bench = Bench(UNALIGNED)
    bench.gate.add(0, data("a"))
    bench.gate.add(1, data("b"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, data("behind"))
    bench.gate.add(1, data("late"))
    bench.gate.add(1, Watermark(7))
    taken = bench.gate.poll()
    assert isinstance(taken, TakeCheckpoint)
    assert taken.barrier.unaligned
    assert taken.input is None
    bench.clock.now = 1030
    bench.gate.add(1, barrier(1))
    bench.gate.add(1, data("behind too"))
    complete = bench.gate.poll()
    assert isinstance(complete, InputComplete)
    assert (complete.input.unaligned, complete.input.persisted_data, complete.input.alignment_ms) == (True, 6, 30)
    assert sorted(persisted(complete.input.channel_state), key=str) == sorted(
        [(0, data("a")), (1, data("b")), (1, data("late")), (1, Watermark(7))], key=str
    )
    texts = [one for one in bench.drain() if isinstance(one, str)]
    assert sorted(texts) == ["a", "b", "behind", "behind too", "late"]


def test_nothing_in_flight_is_no_channel_state() -> None:
    bench = Bench(UNALIGNED)
    bench.gate.add(0, barrier(1))
    bench.gate.add(1, barrier(1))
    assert isinstance(bench.gate.poll(), TakeCheckpoint)
    complete = bench.gate.poll()
    assert isinstance(complete, InputComplete)
    assert complete.input.channel_state is None


@pytest.mark.parametrize("settings", [UNALIGNED, ALTERNATING])
def test_a_savepoint_is_aligned(settings: InputSettings) -> None:
    bench = Bench(settings)
    bench.gate.add(0, data("a"))
    bench.gate.add(0, barrier(1, savepoint=True))
    bench.gate.add(0, data("behind"))
    bench.clock.now = 5000
    assert bench.drain() == ["a"]
    assert not bench.gate.may_overtake_output(barrier(1, savepoint=True))
    bench.gate.add(1, barrier(1, savepoint=True))
    assert bench.drain() == [1, "behind"]


def test_a_newer_barrier_drops_the_channel_state_of_an_older_checkpoint() -> None:
    bench = Bench(UNALIGNED)
    bench.gate.add(1, data("b"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(0, barrier(2))
    bench.gate.add(1, barrier(1))
    bench.gate.add(1, barrier(2))
    events = bench.drain()
    assert events[:3] == [1, CheckpointAborted(1, SUBSUMED), 2]
    complete = events[3]
    assert isinstance(complete, InputComplete)
    assert persisted(complete.input.channel_state) == [(1, data("b"))]


def test_the_end_of_a_channel_ends_its_channel_state() -> None:
    bench = Bench(UNALIGNED)
    bench.gate.add(0, barrier(1))
    bench.gate.add(1, data("last"))
    bench.gate.add(1, EndOfPartition())
    events = bench.drain()
    assert events[0] == 1
    assert isinstance(events[1], InputComplete)
    assert persisted(events[1].input.channel_state) == [(1, data("last"))]
    assert events[2:] == ["last"]


# -- aligned first


def test_an_alignment_in_time_is_one() -> None:
    bench = Bench(ALTERNATING)
    bench.gate.add(0, data("a"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(1, barrier(1))
    assert bench.gate.next_deadline() == 1100
    assert bench.drain() == ["a", 1]
    assert bench.gate.next_deadline() is None


def test_after_the_timeout_queued_barriers_overtake() -> None:
    bench = Bench(ALTERNATING, 3)
    bench.gate.add(0, barrier(1))
    assert bench.drain() == []  # it is held back from here on
    bench.gate.add(0, data("behind"))
    bench.gate.add(1, data("queued"))
    bench.gate.add(1, barrier(1))
    bench.gate.add(1, data("behind too"))
    bench.gate.add(2, data("other"))
    bench.clock.now = 1100
    taken = bench.gate.poll()
    assert isinstance(taken, TakeCheckpoint)
    assert taken.barrier.unaligned
    assert bench.gate.may_overtake_output(taken.barrier)
    assert not bench.gate.is_held_back(0)
    bench.gate.add(2, barrier(1))
    complete = bench.gate.poll()
    assert isinstance(complete, InputComplete)
    assert persisted(complete.input.channel_state) == [(1, data("queued")), (2, data("other"))]
    assert sorted(map(str, bench.drain())) == ["behind", "behind too", "other", "queued"]


def test_a_barrier_that_overtook_upstream_overtakes_here() -> None:
    bench = Bench(ALTERNATING)
    bench.gate.add(0, data("a"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(1, data("b"))
    bench.gate.add(1, barrier(1, unaligned=True))
    events = bench.drain()
    assert events[0] == 1
    assert isinstance(events[1], InputComplete)
    assert persisted(events[1].input.channel_state) == [(0, data("a")), (1, data("b"))]


def test_output_may_be_overtaken_after_the_timeout() -> None:
    bench = Bench(ALTERNATING)
    assert not bench.gate.may_overtake_output(barrier(1))
    bench.clock.now = 1100
    assert bench.gate.may_overtake_output(barrier(1))
    assert not Bench(ALIGNED).gate.may_overtake_output(barrier(1, at=0))


# -- what is replayed


def test_channel_state_comes_first_and_is_in_flight_again() -> None:
    bench = Bench(UNALIGNED)
    bench.gate.add(1, data("old"))
    bench.gate.add(1, WatermarkStatus(idle=True))
    bench.gate.add(0, barrier(1))
    bench.gate.add(1, barrier(1))
    complete = next(one for one in bench.drain() if isinstance(one, InputComplete))
    state = complete.input.channel_state
    assert state is not None
    again = Bench(UNALIGNED)
    again.gate.restore(io.BytesIO(state.to_bytes()))
    again.gate.add(0, data("new"))
    again.gate.add(1, barrier(2))
    again.gate.add(0, barrier(2))
    events = again.drain()
    assert events[0] == 2
    assert isinstance(events[1], InputComplete)
    assert persisted(events[1].input.channel_state) == [
        (0, data("new")),
        (1, data("old")),
        (1, WatermarkStatus(idle=True)),
    ]
    assert events[2:] == ["old", InputElement(1, WatermarkStatus(idle=True)), "new"]


def test_channel_state_of_another_number_of_channels_is_refused() -> None:
    bench = Bench(UNALIGNED)
    bench.gate.add(1, data("old"))
    bench.gate.add(0, barrier(1))
    bench.gate.add(1, barrier(1))
    complete = next(one for one in bench.drain() if isinstance(one, InputComplete))
    assert complete.input.channel_state is not None
    other = Bench(UNALIGNED, 3)
    with pytest.raises(ChannelStateRescaleError, match="of 2 channels; the subtask has 3"):
        other.gate.restore(io.BytesIO(complete.input.channel_state.to_bytes()))


# -- room


def test_what_is_held_back_past_the_bound_waits_on_disk_in_its_order(tmp_path: Path) -> None:
    bench = Bench(InputSettings(memory_bytes=10, directory=str(tmp_path)))
    bench.gate.add(0, barrier(1))
    bench.drain()
    sent: list[InFlightElement] = []
    for number in range(20):
        sent += [data(f"row {number:02}"), Watermark(number)]
    for element in sent:
        bench.gate.add(0, element)
    assert bench.gate.memory_bytes <= 10
    assert bench.gate.spilled_bytes == bench.gate.held_back_bytes - bench.gate.memory_bytes > 100
    assert bench.gate.has_room  # others are to be read, or the last barrier never comes
    bench.gate.add(1, barrier(1))
    assert isinstance(bench.gate.poll(), TakeCheckpoint)
    got = []
    while (event := bench.gate.poll()) is not None:
        assert isinstance(event, InputElement)
        got.append(event.element)
    assert got == sent
    assert (bench.gate.queued_bytes, bench.gate.spilled_bytes, list(tmp_path.iterdir())) == (0, 0, [])


def test_what_nothing_holds_back_stops_the_network() -> None:
    bench = Bench(InputSettings(memory_bytes=10, room_bytes=5))
    bench.gate.add(0, data("123456"))
    assert not bench.gate.has_room
    bench.drain()
    assert bench.gate.has_room


def peak_while_held_back(directory: str) -> int:
    """Return how many bytes of memory 20 MB take that are held back where 1 MB may be in memory."""
    tracemalloc.start()
    bench = Bench(InputSettings(memory_bytes=1 << 20, directory=directory))
    bench.gate.add(0, barrier(1))
    bench.drain()
    for number in range(1000):
        bench.gate.add(0, Buffer(bytes([number % 256]) * 20_000, 10))
    assert bench.gate.spilled_bytes > 18_000_000
    bench.gate.close()
    return tracemalloc.get_traced_memory()[1]


def test_memory_is_bounded_however_much_is_held_back(tmp_path: Path) -> None:
    """In a process of its own: threads that other tests have left take memory, too."""
    code = f"from {__name__} import peak_while_held_back as peak; import sys; print(peak(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[6])  # noqa: S603
    assert int(done.stdout) < 2 << 20

"""Whatever comes in whatever order: what a checkpoint holds is what stood in front of its barriers."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelStateReader
from pystate.runtime.engines.real_time.slot.input.checkpointed_input_gate import CheckpointedInputGate
from pystate.runtime.engines.real_time.slot.input.input_events import (
    AllChannelsEnded,
    CheckpointAborted,
    InputCheckpoint,
    InputComplete,
    InputElement,
    TakeCheckpoint,
)
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer, CancelCheckpointMarker, EndOfPartition

CHANNELS = 3
LAST = 6

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(0, CHANNELS - 1)),
        st.tuples(st.just("barrier"), st.integers(0, CHANNELS - 1)),
        st.tuples(st.just("skip"), st.integers(0, CHANNELS - 1)),
        st.tuples(st.just("cancel"), st.integers(0, CHANNELS - 1)),
        st.tuples(st.just("end"), st.integers(0, CHANNELS - 1)),
        st.tuples(st.just("poll"), st.integers(1, 3)),
        st.tuples(st.just("time"), st.sampled_from([10, 60])),
    ),
    max_size=60,
)
SETTINGS = st.builds(
    InputSettings,
    at_least_once=st.booleans(),
    unaligned=st.booleans(),
    aligned_timeout_ms=st.sampled_from([0, 50]),
    memory_bytes=st.sampled_from([2, 1 << 20]),
)
SAVEPOINTS = st.sets(st.integers(1, LAST))


@dataclass
class Trace:
    """What was put in and what came out."""

    sent: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    in_front: dict[tuple[int, int], int] = field(default_factory=dict)  # of the barrier of checkpoint, channel: data
    ended: set[int] = field(default_factory=set)
    done: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[int, dict[int, int]] = field(default_factory=dict)  # processed by channel where a checkpoint was taken
    complete: dict[int, InputCheckpoint] = field(default_factory=dict)
    aborted: list[int] = field(default_factory=list)
    at_end: bool = False


class Run:
    """Plays actions on a gate."""

    def __init__(self, settings: InputSettings, savepoints: set[int]) -> None:
        self.now = 0
        self.savepoints = savepoints
        self.gate = CheckpointedInputGate(CHANNELS, settings, lambda: self.now)
        self.numbers = [0] * CHANNELS
        self.trace = Trace()

    def act(self, action: str, argument: int) -> None:
        if action == "poll":
            for _ in range(argument):
                self.poll()
        elif action == "time":
            self.now += argument
        elif argument not in self.trace.ended:
            self.send(action, argument)

    def send(self, action: str, channel: int) -> None:
        trace = self.trace
        if action == "data":
            data = f"{channel}:{len(trace.sent[channel])}".encode()
            trace.sent[channel].append(data)
            self.gate.add(channel, Buffer(data, 1))
        elif action == "end":
            trace.ended.add(channel)
            self.gate.add(channel, EndOfPartition())
        elif self.numbers[channel] < LAST:
            self.numbers[channel] += 1
            number = self.numbers[channel]
            if action == "barrier":
                trace.in_front[number, channel] = len(trace.sent[channel])
                self.gate.add(channel, CheckpointBarrier(number, "", 0, self.now, savepoint=number in self.savepoints))
            elif action == "cancel":
                self.gate.add(channel, CancelCheckpointMarker(number))

    def poll(self) -> bool:
        event, trace = self.gate.poll(), self.trace
        if isinstance(event, InputElement):
            assert isinstance(event.element, Buffer)
            trace.done[event.channel].append(event.element.data)
        elif isinstance(event, TakeCheckpoint):
            number = event.barrier.checkpoint_id
            assert number not in trace.taken
            trace.taken[number] = {channel: len(trace.done[channel]) for channel in range(CHANNELS)}
            if event.input is not None:
                trace.complete[number] = event.input
        elif isinstance(event, InputComplete):
            trace.complete[event.input.checkpoint_id] = event.input
        elif isinstance(event, CheckpointAborted):
            trace.aborted.append(event.checkpoint_id)
        elif isinstance(event, AllChannelsEnded):
            trace.at_end = True
        return event is not None


def in_flight(found: InputCheckpoint) -> dict[int, list[bytes]]:
    by_channel: dict[int, list[bytes]] = defaultdict(list)
    if found.channel_state is not None:
        for channel, element in ChannelStateReader(io.BytesIO(found.channel_state.to_bytes())):
            assert isinstance(element, Buffer)
            by_channel[channel].append(element.data)
    return by_channel


@given(SETTINGS, SAVEPOINTS, ACTIONS)
def test_a_checkpoint_holds_what_stood_before_its_barriers(
    settings: InputSettings, savepoints: set[int], actions: list[tuple[str, int]]
) -> None:
    run = Run(settings, savepoints)
    for action, argument in actions:
        run.act(action, argument)
    for channel in set(range(CHANNELS)) - run.trace.ended:
        run.send("end", channel)  # with the last of them nothing may hang
    while run.poll():
        pass
    trace = run.trace
    assert trace.at_end
    assert {one: data for one, data in trace.done.items() if data} == {one: data for one, data in trace.sent.items() if data}
    assert len(set(trace.aborted)) == len(trace.aborted)
    assert not set(trace.aborted) & trace.complete.keys()
    assert trace.taken.keys() <= trace.complete.keys() | set(trace.aborted)
    for number, found in trace.complete.items():
        persisted = in_flight(found)
        for channel in range(CHANNELS):
            sent = trace.sent.get(channel, [])
            in_front = trace.in_front.get((number, channel), len(sent))
            processed = trace.taken[number][channel]
            if settings.at_least_once:
                assert processed >= in_front  # what is behind the barrier comes again; nothing is lost
            else:
                assert sent[:processed] + persisted[channel] == sent[:in_front]
        if number in savepoints or settings.at_least_once or not settings.unaligned:
            assert found.channel_state is None
    assert run.gate.queued_bytes == run.gate.spilled_bytes == run.gate.memory_bytes == run.gate.held_back_bytes == 0


@given(SETTINGS, st.permutations([channel for channel in range(CHANNELS) for _ in range(3)]), st.lists(st.booleans()))
def test_a_checkpoint_whose_barriers_all_come_completes(
    settings: InputSettings, order: list[int], polls: list[bool]
) -> None:
    """One at a time, as the coordinator does it: data, its barrier and data again on each channel."""
    run = Run(settings, set())
    sent = [0] * CHANNELS
    for index, channel in enumerate(order):
        run.send(("data", "barrier", "data")[sent[channel]], channel)
        sent[channel] += 1
        if index < len(polls) and polls[index]:
            run.poll()
    while run.poll():
        pass
    assert (list(run.trace.complete), run.trace.aborted) == ([1], [])

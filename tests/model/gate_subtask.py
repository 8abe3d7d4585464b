"""Subtasks around real `CheckpointedInputGate`s: what waits at a gate is under way, and may be in a checkpoint."""

from __future__ import annotations

import io
from collections import deque
from typing import Any, NamedTuple

import msgpack

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, FrameKind, pack_frame, pack_message, unpack_frame
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelStateReader
from pystate.runtime.engines.real_time.slot.input.checkpointed_input_gate import CheckpointedInputGate
from pystate.runtime.engines.real_time.slot.input.input_events import (
    CheckpointAborted,
    InputComplete,
    InputElement,
    InputEvent,
    TakeCheckpoint,
)
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer, CancelCheckpointMarker, StreamElement
from tests.model.learned import Learned
from tests.model.protocol import Protocol, World
from tests.model.real_subtask import IGNORED, Graph

OWN_IGNORED = IGNORED | {"_emit", "_clock", "_settings", "_file"}
TIMEOUT_MS = 100


class Shown(NamedTuple):
    """What a subtask has to do.

    Attributes:
        is_roused: Something has come to it.
        goes_on: It has something to read.
        can_time_out: Barriers that wait at it overtake once their time is over.
    """

    is_roused: bool
    goes_on: bool
    can_time_out: bool


class GateSubtask:
    """A subtask that takes note of each record and hands it on at once; see `RealSubtask` for its stimuli."""

    def __init__(self, graph: Graph, uid: str, settings: InputSettings) -> None:
        self._graph = graph
        upstream = graph.upstream(uid)
        self._now = 0
        self._gate = CheckpointedInputGate(len(upstream), settings, lambda: self._now) if upstream else None
        self._targets = graph.downstream(uid)
        self._channels = [graph.upstream(target).index(uid) for target in self._targets]
        self._values = () if upstream else tuple(graph.values(uid))
        self._seen: list[int] = []
        self._position = 0
        self._mail: deque[CheckpointBarrier] = deque()
        self._taken: dict[int, Any] = {}  # what a checkpoint holds whose channel state isn't complete
        self._sent_on = 0  # the newest checkpoint whose barrier was sent on
        self._out: list[Any] = []

    def apply(self, stimulus: Any) -> list[Any]:
        self._out = []
        match stimulus:
            case ("open", part) if part is not None:
                seen, self._position, in_flight = part
                self._seen = list(seen)
                if in_flight and self._gate is not None:
                    self._gate.restore(io.BytesIO(in_flight))
            case ("frame", data):
                frame = unpack_frame(data)
                assert self._gate is not None
                self._gate.add(frame.channel, _element(frame.kind, bytes(frame.data)))
            case ("barrier", barrier):
                self._mail.append(barrier)
            case ("step",):
                self._step()
            case ("time out",):
                self._now = TIMEOUT_MS
                self._step()
                self._now = 0
            case ("look",):
                return [(tuple(self._seen), self._position, b"")]
        return self._out

    def roots(self) -> Any:
        return self._gate, self._seen, self._position, self._mail, self._taken, self._sent_on

    def shows(self) -> Shown:
        if self._gate is None:
            return Shown(bool(self._mail), self._position < len(self._values), can_time_out=False)
        return Shown(self._gate.has_events, goes_on=False, can_time_out=self._gate.next_deadline() is not None)

    def _step(self) -> None:
        if self._gate is not None:
            event = self._gate.poll()
            if event is not None:
                self._do(event)
        elif self._mail:
            barrier = self._mail.popleft()
            self._part(barrier.checkpoint_id, (tuple(self._seen), self._position), b"")
            self._forward(barrier)
        else:
            self._hand_on(self._values[self._position])
            self._position += 1

    def _do(self, event: InputEvent) -> None:
        if isinstance(event, InputElement):
            assert isinstance(event.element, Buffer)
            value = int(event.element.data)
            self._seen = sorted([*self._seen, value])
            self._hand_on(value)
        elif isinstance(event, TakeCheckpoint):
            state = tuple(self._seen), self._position
            self._forward(event.barrier)
            if event.input is not None:
                self._part(event.barrier.checkpoint_id, state, b"")
            else:
                self._taken[event.barrier.checkpoint_id] = state
        elif isinstance(event, InputComplete):
            found = event.input
            in_flight = b"" if found.channel_state is None else found.channel_state.to_bytes()
            self._part(found.checkpoint_id, self._taken.pop(found.checkpoint_id), in_flight)
        elif isinstance(event, CheckpointAborted):
            self._taken.pop(event.checkpoint_id, None)
            if event.checkpoint_id > self._sent_on:
                self._send(FrameKind.CANCEL, str(event.checkpoint_id).encode())

    def _part(self, checkpoint_id: int, state: Any, in_flight: bytes) -> None:
        self._out.append(("part", checkpoint_id, (*state, in_flight)))

    def _forward(self, barrier: CheckpointBarrier) -> None:
        self._sent_on = barrier.checkpoint_id
        self._send(FrameKind.BARRIER, pack_message(barrier.to_plain()))

    def _hand_on(self, value: int) -> None:
        self._send(FrameKind.BATCH, str(value).encode())

    def _send(self, kind: FrameKind, data: bytes) -> None:
        for target, channel in zip(self._targets, self._channels, strict=True):
            place = self._graph.tasks.index(target), 0
            self._out.append(("sent", place, pack_frame(place, kind, channel, 0, data)[PLACE_SIZE:]))


def _element(kind: FrameKind, data: bytes) -> StreamElement:
    if kind is FrameKind.BATCH:
        return Buffer(data, 1)
    if kind is FrameKind.CANCEL:
        return CancelCheckpointMarker(int(data))
    return CheckpointBarrier.from_plain(msgpack.unpackb(data, raw=False))


class GateProtocol(Protocol):
    """The protocol with these subtasks: time passes between an arrival and what is done about it.

    Args:
        graph: The job.
        budget: What may happen.
        settings: Of all inputs.
    """

    def __init__(self, graph: Graph, budget: Any, settings: InputSettings) -> None:
        super().__init__(graph, budget, exactly_once=not settings.at_least_once, stepwise=True)
        self._subtasks = [
            Learned(lambda uid=uid: GateSubtask(graph, uid, settings), OWN_IGNORED)  # type: ignore[misc]
            for uid in self.tasks
        ]

    def _steps(self, world: World):
        yield from super()._steps(world)
        for number, uid in enumerate(self.tasks):
            if self._subtasks[number].shows(world.subtasks[number]).can_time_out:
                yield f"barriers overtake at {uid}", self._subtask(world, number, ("time out",))

    def _wrong_flow(self, states: dict[str, Any], what: str) -> str | None:
        decoded = {uid: (seen, position, values_of(data)) for uid, (seen, position, data) in states.items()}
        return super()._wrong_flow(decoded, what)


def values_of(channel_state: bytes) -> tuple[int, ...]:
    """Return the records that are under way in a checkpoint."""
    if not channel_state:
        return ()
    elements = ChannelStateReader(io.BytesIO(channel_state))
    return tuple(int(element.data) for _, element in elements if isinstance(element, Buffer))

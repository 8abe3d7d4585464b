"""The input gate of a subtask: accepts frames on relay threads and hands elements to the subtask's thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from pystate.common.errors import ControlError
from pystate.common.time import current_time_ms
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import Frame, FrameKind, unpack_frame
from pystate.runtime.engines.real_time.slot.input.barrier_handler import Clock
from pystate.runtime.engines.real_time.slot.input.checkpointed_input_gate import CheckpointedInputGate
from pystate.runtime.engines.real_time.slot.input.input_events import (
    CheckpointAborted,
    InputComplete,
    InputElement,
    TakeCheckpoint,
)
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer, CancelCheckpointMarker, StreamElement
from pystate.runtime.engines.real_time.slot.mailbox import LONGEST_WAIT_S, TaskMailbox
from pystate.runtime.plan.channels import SubtaskId

CheckpointEvent = TakeCheckpoint | InputComplete | CheckpointAborted
GateEvent = Frame | CheckpointEvent


class _Opening(NamedTuple):
    """A checkpoint whose data is accepted without limit from a time on, ms since 1970."""

    checkpoint_id: int
    opens_at: int


class InputGate:
    """The incoming channels of one subtask: a thread-safe `CheckpointedInputGate`.

    Relays wait while there is no room for data. One relay delivers the frames of all channels, so data before a barrier that
    may overtake can be queued in a relay that waits. Once such a barrier is announced, all data before it is accepted.

    Args:
        upstream: The sender of each channel.
        mailbox: The subtask's mailbox; its lock is held around each step.
        settings: The treatment of barriers, and the buffer sizes.
        clock: Returns milliseconds since 1970.
    """

    def __init__(
        self, upstream: tuple[SubtaskId, ...], mailbox: TaskMailbox, settings: InputSettings, clock: Clock = current_time_ms
    ) -> None:
        self._upstream = upstream
        self._mailbox = mailbox
        self._settings = settings
        self._clock = clock
        self._gate = CheckpointedInputGate(len(upstream), settings, clock)
        self._sequences = [0] * len(upstream)
        self._barriers = [-1] * len(upstream)  # by channel: the newest checkpoint whose barrier has arrived
        self._opening: _Opening | None = None
        self._has_ended = False
        self._closed = False

    @property
    def upstream(self) -> tuple[SubtaskId, ...]:
        """The sender of each channel."""
        return self._upstream

    def restore(self, states: Iterable[BinaryIO]) -> None:
        """Replay a checkpoint's in-flight data before all other input.

        Args:
            states: The output of `ChannelStateWriter`s, in replay order.

        Raises:
            PystateError: See `CheckpointedInputGate.restore`.
        """
        with self._mailbox.changed:
            for state in states:
                self._gate.restore(state)

    def receive(self, frame: Frame) -> None:
        """Accept a frame, on the thread of a relay or of a subtask of this slot; waits while there is no room.

        Raises:
            ControlError: An earlier frame is lost, or the attempt is over.
            SnapshotError: The disk is full or fails while it stores held-back data or channel state.
        """
        mailbox = self._mailbox
        with mailbox.changed:
            expected = self._sequences[frame.channel]
            if frame.sequence != expected:
                message = f"Frame {frame.sequence} of {self._upstream[frame.channel]} came in the place of {expected}."
                raise ControlError(message)
            self._sequences[frame.channel] = expected + 1
            element = _element_of(frame)
            if isinstance(element, Buffer):
                while not (self._gate.has_room or self._is_open() or mailbox.is_closed or self._has_ended):
                    mailbox.changed.wait(self._until_open_s())
            if self._has_ended:
                message = "The attempt is over."
                raise ControlError(message)
            if self._closed:
                return
            if isinstance(element, CheckpointBarrier):
                self._barriers[frame.channel] = max(self._barriers[frame.channel], element.checkpoint_id)
            self._gate.add(frame.channel, element)
            mailbox.changed.notify_all()

    def announce(self, barrier: CheckpointBarrier) -> None:
        """Accept all data before a barrier that was sent, from the time at which it may overtake data."""
        opens_at = self._settings.overtakes_at(barrier)
        if opens_at is None:
            return
        with self._mailbox.changed:
            if self._opening is None or self._opening.checkpoint_id < barrier.checkpoint_id:
                self._opening = _Opening(barrier.checkpoint_id, opens_at)
                self._mailbox.changed.notify_all()

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint that was ended from outside."""
        with self._mailbox.changed:
            if self._closed:
                return
            if self._opening is not None and self._opening.checkpoint_id == checkpoint_id:
                self._opening = None
            self._gate.abort_checkpoint(checkpoint_id)
            self._mailbox.changed.notify_all()

    @property
    def has_events(self) -> bool:
        """Whether `poll` may return an event."""
        return self._gate.has_events

    @property
    def has_checkpoint_events(self) -> bool:
        """Whether `poll_checkpoint` returns an event."""
        return self._gate.has_checkpoint_events

    @property
    def has_room(self) -> bool:
        """Whether there is room for data, and no barrier makes the gate accept data beyond the limit."""
        with self._mailbox.changed:
            return not self._is_open() and self._gate.has_room

    @property
    def spilled_bytes(self) -> int:
        """Bytes of queued data in files."""
        return self._gate.spilled_bytes

    def next_deadline(self) -> int | None:
        """Return the time from which `poll` may return an event without new input, ms since 1970; None for never."""
        return self._gate.next_deadline()

    def poll(self) -> GateEvent | None:
        """Return the next event; None for none."""
        with self._mailbox.changed:
            had_room = self._gate.has_room
            while not self._closed:
                event = self._gate.poll()
                if isinstance(event, InputElement):
                    self._made_room(had_room)
                    assert isinstance(event.element, Buffer)  # noqa: S101 - no other is put in
                    return unpack_frame(event.element.data)
                if event is None or isinstance(event, CheckpointEvent):
                    self._made_room(had_room)
                    return event
        return None

    def poll_checkpoint(self) -> CheckpointEvent | None:
        """Return the next checkpoint event before the next element; None for none."""
        with self._mailbox.changed:
            had_room = self._gate.has_room
            event = None if self._closed else self._gate.poll_checkpoint()
            self._made_room(had_room)
            return event if isinstance(event, CheckpointEvent) else None

    def end(self) -> None:
        """Accept nothing more, and wake who waits for room."""
        with self._mailbox.changed:
            self._has_ended = True
            self._mailbox.changed.notify_all()

    def close(self) -> None:
        """Release memory and files."""
        with self._mailbox.changed:
            self._closed = True
            self._gate.close()
            self._mailbox.changed.notify_all()

    def _made_room(self, had_room: bool) -> None:
        """Wake who waits for room if there is some now: an element was taken, or a channel is held back now."""
        if not had_room and self._gate.has_room:
            self._mailbox.changed.notify_all()

    def _is_open(self) -> bool:
        """Return whether a barrier that may overtake by now hasn't arrived on all channels yet."""
        if self._opening is None:
            return False
        checkpoint_id, opens_at = self._opening
        if min(self._barriers) >= checkpoint_id:
            self._opening = None
            return False
        return self._clock() >= opens_at

    def _until_open_s(self) -> float | None:
        if self._opening is None:
            return None
        return min(max(0.0, self._opening.opens_at - self._clock()) / 1000, LONGEST_WAIT_S)


def _element_of(frame: Frame) -> StreamElement:
    if frame.kind is FrameKind.BARRIER:
        return CheckpointBarrier.from_plain(frame.message())
    if frame.kind is FrameKind.CANCEL:
        return CancelCheckpointMarker(int(frame.message()))
    return Buffer(frame.packed, frame.rows)

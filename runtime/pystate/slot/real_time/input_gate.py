"""What comes to a subtask through its channels, and in which order its thread takes it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pystate.common.errors import ControlError
from pystate.common.time import current_time_ms
from pystate.plan.channels import SubtaskId
from pystate.slot.real_time.frames import Frame, FrameKind
from pystate.slot.real_time.mailbox import TaskMailbox
from pystate.slot.subtask_checkpoints import Alignment
from pystate.snapshot.barrier import CheckpointBarrier


@dataclass(frozen=True)
class CheckpointReady:
    """The barrier of a checkpoint has come on all channels that are waited for."""

    barrier: CheckpointBarrier
    alignment: Alignment


@dataclass(frozen=True)
class CheckpointAborted:
    """A checkpoint was given up by who sends to this subtask."""

    checkpoint_id: int


GateEvent = Frame | CheckpointReady | CheckpointAborted


class InputGate:
    """The incoming channels of one subtask.

    Args:
        upstream: Who sends through each channel.
        mailbox: Of the subtask; its lock is held around each step.
        room: Bytes that wait in memory until relays wait, too.
        exactly_once: Whether what comes behind a barrier waits for the barriers of the other channels.
    """

    def __init__(self, upstream: tuple[SubtaskId, ...], mailbox: TaskMailbox, room: int, *, exactly_once: bool) -> None:
        self._upstream = upstream
        self._mailbox = mailbox
        self._room = room
        self._exactly_once = exactly_once
        self._sequences = [0] * len(upstream)
        self._ready: deque[Frame] = deque()
        self._held: deque[Frame] = deque()
        self._waiting_bytes = 0
        self._barrier: CheckpointBarrier | None = None
        self._arrived: set[int] = set()
        self._first_at = 0
        self._processed = 0

    def receive(self, frame: Frame) -> None:
        """Take a frame, on a relay's thread; waits while there is no room.

        Raises:
            ControlError: A frame before it is lost.
        """
        mailbox = self._mailbox
        with mailbox.changed:
            expected = self._sequences[frame.channel]
            if frame.sequence != expected:
                message = f"Frame {frame.sequence} of {self._upstream[frame.channel]} came in the place of {expected}."
                raise ControlError(message)
            self._sequences[frame.channel] = expected + 1
            mailbox.changed.wait_for(lambda: self._waiting_bytes < self._room or mailbox.is_closed)
            self._ready.append(frame)
            self._waiting_bytes += len(frame.data)
            mailbox.changed.notify_all()

    @property
    def has_events(self) -> bool:
        """Whether `poll` may return something."""
        return bool(self._ready)

    def poll(self) -> GateEvent | None:
        """Return what is next; None for nothing."""
        with self._mailbox.changed:
            while self._ready:
                frame = self._ready.popleft()
                event: GateEvent | None = frame
                if frame.kind is FrameKind.BARRIER:
                    event = self._barrier_came(frame)
                elif self._exactly_once and frame.channel in self._arrived:
                    self._held.append(frame)
                    event = None
                elif self._arrived:
                    self._processed += len(frame.data)
                if event is not None:
                    self._waiting_bytes -= len(frame.data)
                    self._mailbox.changed.notify_all()
                    return event
        return None

    def _barrier_came(self, frame: Frame) -> GateEvent | None:
        barrier = CheckpointBarrier.from_plain(frame.message())
        now = current_time_ms()
        if self._barrier is None or barrier.checkpoint_id > self._barrier.checkpoint_id:
            self._release()
            self._barrier, self._arrived, self._first_at, self._processed = barrier, set(), now, 0
        elif barrier.checkpoint_id < self._barrier.checkpoint_id:
            return None
        self._arrived.add(frame.channel)
        if len(self._arrived) < len(self._upstream):
            return None
        self._release()
        alignment = Alignment(alignment_ms=now - self._first_at, processed_data=self._processed)
        self._arrived = set()
        return CheckpointReady(self._barrier, alignment)

    def _release(self) -> None:
        self._ready.extendleft(reversed(self._held))
        self._held.clear()

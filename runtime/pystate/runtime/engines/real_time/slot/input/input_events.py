"""The events that a subtask's input returns to the subtask's thread."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelState
from pystate.runtime.engines.real_time.slot.input.stream_elements import InFlightElement


@dataclass(frozen=True)
class InputElement:
    """An element must be processed.

    Attributes:
        channel: The channel that it came from.
        element: A buffer, a watermark, or a change of the channel's idleness.
    """

    channel: int
    element: InFlightElement


@dataclass(frozen=True)
class InputCheckpoint:
    """The input's report on a checkpoint whose barriers have arrived on all channels.

    Attributes:
        checkpoint_id: The checkpoint.
        start_delay_ms: From the trigger to the first barrier.
        alignment_ms: From the first barrier to the last.
        processed_data: Bytes processed during the alignment.
        buffered_data: Bytes held back during the alignment.
        persisted_data: Bytes of in-flight data in the checkpoint.
        unaligned: Whether its barriers overtook data.
        channel_state: The in-flight data; None if there is none.
    """

    checkpoint_id: int
    start_delay_ms: int
    alignment_ms: int
    processed_data: int = 0
    buffered_data: int = 0
    persisted_data: int = 0
    unaligned: bool = False
    channel_state: ChannelState | None = None


@dataclass(frozen=True)
class TakeCheckpoint:
    """The state must be frozen now, and the barrier forwarded before all further output.

    Attributes:
        barrier: Forwarded unchanged: if it is `unaligned` it overtakes output too.
        input: The report for the acknowledgement; None if the checkpoint is unaligned: then an `InputComplete` follows, or a
            `CheckpointAborted`.
    """

    barrier: CheckpointBarrier
    input: InputCheckpoint | None


@dataclass(frozen=True)
class InputComplete:
    """The channel state of an unaligned checkpoint is complete, so the subtask can acknowledge it."""

    input: InputCheckpoint


@dataclass(frozen=True)
class CheckpointAborted:
    """The subtask takes no (further) part in a checkpoint: it declines it, and cancels it downstream.

    Attributes:
        checkpoint_id: The checkpoint.
        reason: The reason.
    """

    checkpoint_id: int
    reason: CheckpointFailureReason


@dataclass(frozen=True)
class AllChannelsEnded:
    """All channels have ended."""


InputEvent = InputElement | TakeCheckpoint | InputComplete | CheckpointAborted | AllChannelsEnded

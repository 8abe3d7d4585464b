"""What the input of a subtask has its thread do next."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.channel_state import ChannelState
from pystate.runtime.engines.real_time.slot.stream_elements import InFlightElement


@dataclass(frozen=True)
class InputElement:
    """An element is to be processed.

    Attributes:
        channel: Where it came from.
        element: A buffer, a watermark, or whether the channel is idle.
    """

    channel: int
    element: InFlightElement


@dataclass(frozen=True)
class InputCheckpoint:
    """All that the input has to say of a checkpoint: its barriers have come on all channels.

    Attributes:
        checkpoint_id: Which.
        start_delay_ms: From the trigger to the first barrier.
        alignment_ms: From the first barrier to the last.
        processed_data: Bytes processed meanwhile.
        buffered_data: Bytes held back meanwhile.
        persisted_data: Bytes of data in flight that are in the checkpoint.
        unaligned: Whether its barriers overtook data.
        channel_state: The data in flight; None where there is none.
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
    """The state is to be frozen now, and the barrier to be sent on in front of all output that comes from here on.

    Attributes:
        barrier: To be sent on as it is here: where it is `unaligned` it overtakes output too.
        input: What goes into the acknowledgement; None where the checkpoint is unaligned: then an `InputComplete` follows,
            or a `CheckpointAborted`.
    """

    barrier: CheckpointBarrier
    input: InputCheckpoint | None


@dataclass(frozen=True)
class InputComplete:
    """The channel state of an unaligned checkpoint is complete: what a subtask acknowledges is known."""

    input: InputCheckpoint


@dataclass(frozen=True)
class CheckpointAborted:
    """This subtask takes no part in a checkpoint (any more): it declines it, and cancels it for those behind it.

    Attributes:
        checkpoint_id: Which.
        reason: Why.
    """

    checkpoint_id: int
    reason: CheckpointFailureReason


@dataclass(frozen=True)
class AllChannelsEnded:
    """Nothing more comes."""


InputEvent = InputElement | TakeCheckpoint | InputComplete | CheckpointAborted | AllChannelsEnded

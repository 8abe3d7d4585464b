"""The handle of in-flight data: the records that a barrier overtook on their way to a subtask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import RestoreError
from pystate.core.snapshot.handles.handles import StateHandle, handle_from_plain, handle_to_plain
from pystate.core.snapshot.plain import as_map, take_list, unsound


class ChannelStateRescaleError(RestoreError):
    """A checkpoint with data in flight can't be restored to other channels."""


def data_in_flight_stays(uid: str, why: str, parallelism: int | None = None) -> ChannelStateRescaleError:
    """Return the error for a job whose subtasks have other channels than in the checkpoint.

    Args:
        uid: The task.
        why: What differs.
        parallelism: The required parallelism; None if something else differs, too.
    """
    message = f"The checkpoint holds data in flight to task {uid}, which can be replayed only to the same channels: {why}."
    same = "with program and parallelism as the checkpoint has them" if parallelism is None else f"with -p {parallelism}"
    hint = f"start from it {same}; to rescale, take a savepoint of that job, which holds no data in flight"
    return ChannelStateRescaleError(message, hint=hint)


def channels_changed(
    uid: str, before: Sequence[tuple[str, int]], now: Sequence[tuple[str, int]]
) -> ChannelStateRescaleError | None:
    """Return the error for a subtask with other channels than in the checkpoint; None if they are equal.

    Args:
        uid: Its task.
        before: The senders, by channel, at the checkpoint.
        now: The senders now.
    """
    if list(before) == list(now):
        return None
    old, new = (sorted({sender for sender, _ in senders}) for senders in (before, now))
    counts = f"it came from {len(before)} subtasks of {old}, which are {len(now)} of {new}"
    return data_in_flight_stays(uid, counts)


def no_channels(where: str) -> ChannelStateRescaleError:
    """Return the error for an engine without channels, which can't replay in-flight data.

    Args:
        where: The checkpoint.
    """
    message = "The checkpoint holds data in flight, and the micro-batch engine has no channels to replay it on."
    hint = "start with -D execution.engine=real-time and take a savepoint, which holds no data in flight"
    return ChannelStateRescaleError(message, where=where, hint=hint)


@dataclass(frozen=True)
class InputChannelStateHandle:
    """In-flight data of one subtask. It can only be replayed to a subtask with the same channels.

    Attributes:
        upstream: By channel: the sending task and subtask.
        handles: The handles of the data, in replay order.
    """

    upstream: list[tuple[str, int]]
    handles: list[StateHandle]

    def senders_changed(self, uid: str, parallelisms: Mapping[str, int]) -> ChannelStateRescaleError | None:
        """Return the error for a sending task that is missing or has another parallelism; None if all are the same.

        Args:
            uid: The task of the subtask.
            parallelisms: Of the program's tasks, by uid; there may be more of them than those that send.
        """
        for sender, before in Counter(sender for sender, _ in self.upstream).items():
            now = parallelisms.get(sender)
            if now is None:
                return data_in_flight_stays(uid, f"it came from {sender}, which the program doesn't have")
            if now != before:
                return data_in_flight_stays(uid, f"it came from {sender}, whose parallelism was {before} and is {now}")
        return None

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(handle.size for handle in self.handles)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "upstream": [list(sender) for sender in self.upstream],
            "handles": [handle_to_plain(handle) for handle in self.handles],
        }

    @classmethod
    def from_plain(cls, plain: object) -> InputChannelStateHandle:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "data in flight")
        return cls(take_list(data, "upstream", _sender), take_list(data, "handles", handle_from_plain))


def _sender(plain: object) -> tuple[str, int]:
    match plain:
        case [str(uid), int(subtask)] if subtask >= 0:
            return uid, subtask
    raise unsound(what=f"data in flight came from {plain!r}")

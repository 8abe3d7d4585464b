"""The watermarks of one input's channels, combined by minimum (Flink's StatusWatermarkValve)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pystate.runtime.plan.event_time import whole_channel
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK


class WatermarkValve:
    """The watermarks of an input's channels. They never go back, except in `roll_back`.

    Each lasting partition of a source is a channel. Until a row of any partition arrives, the source's own channel stands
    for them; a partition counts from its first row on.

    A channel that was idle and resumes with a watermark lower than the input's is ignored until it has caught up, as in
    Flink: its elements are late in any case. This doesn't apply to partitions of one source, as in Flink's multiplexer of
    splits.

    Args:
        channels: The expected channels, each with its idle timeout, ms; None for no timeout.
        now: The current time, ms since 1970.

    Attributes:
        is_idle: Whether all channels are idle, so that event time doesn't wait for this input.
    """

    def __init__(self, channels: Mapping[str, int | None], now: int) -> None:
        self.is_idle = False
        self._timeouts = dict(channels)
        self._watermarks = dict.fromkeys(channels, MIN_WATERMARK)
        self._heard = dict.fromkeys(channels, now)
        self._idle: set[str] = set()
        self._catching_up: set[str] = set()  # channels that have resumed and not caught up yet
        self._output = MIN_WATERMARK
        self.finish_epoch()

    @property
    def has_channels(self) -> bool:
        """Whether this input has watermarks at all."""
        return bool(self._watermarks)

    def take(self, channel: str, watermark: int, *, idle: bool, now: int) -> None:
        """Store the watermark and idleness of a channel.

        Args:
            channel: Its name; an unexpected channel counts from now on.
            watermark: Event time, ms since 1970; `MIN_WATERMARK` for none.
            idle: Whether event time need not wait for it.
            now: The current time, ms since 1970.
        """
        if channel not in self._watermarks:
            self._take_place(channel)
        self._watermarks[channel] = max(self._watermarks.get(channel, MIN_WATERMARK), watermark)
        self._heard[channel] = now
        if idle:
            self._idle.add(channel)
        if self._watermarks[channel] >= self._output:
            self._catching_up.discard(channel)
        elif channel in self._idle and channel in self._timeouts:
            self._catching_up.add(channel)
        if not idle:
            self._idle.discard(channel)

    def advance(self, now: int, ended: Collection[str] = ()) -> int:
        """Return the input's watermark: the lowest of the channels that aren't idle; if all are idle, it doesn't change.

        A channel at the end of event time has ended and is ignored too. (In Flink its watermark is the lowest if the others
        are idle: event time jumps to its end, and later elements of the others are late.)

        Args:
            now: The current time, ms since 1970.
            ended: Channels that have ended; for partitions, their source's channel. They are ignored, and if there are no
                others, event time ends. They are passed in each epoch and not stored as state.
        """
        for channel, heard in self._heard.items():
            timeout = self._timeouts.get(self._whole(channel))
            if timeout is not None and now - heard >= timeout:
                self._idle.add(channel)
        live = {channel: watermark for channel, watermark in self._watermarks.items() if watermark != MAX_WATERMARK}
        if ended:
            live = {name: at for name, at in live.items() if name not in ended and self._whole(name) not in ended}
        if self._watermarks and not live:
            self.is_idle = False
            self._output = MAX_WATERMARK
            return MAX_WATERMARK
        active = [channel for channel in live if channel not in self._idle]
        self.is_idle = self.has_channels and not active
        waited_for = [live[channel] for channel in active if channel not in self._catching_up]
        if waited_for:
            self._output = max(self._output, min(waited_for))
        return self._output

    def finish_epoch(self) -> None:
        """Commit the changes since the last epoch."""
        self._finished = (dict(self._watermarks), dict(self._heard), set(self._idle), set(self._catching_up), self._output)

    def roll_back(self) -> None:
        """Discard the changes since the last finished epoch."""
        watermarks, heard, idle, catching_up, self._output = self._finished
        self._watermarks, self._heard, self._idle, self._catching_up = (
            dict(watermarks),
            dict(heard),
            set(idle),
            set(catching_up),
        )
        self.is_idle = self.has_channels and all(channel in self._idle for channel in self._watermarks)

    def snapshot(self) -> dict[str, int]:
        """Return the watermark of each channel, except those that have ended: a job that continues after them isn't late."""
        known = self._watermarks.items()
        return {channel: watermark for channel, watermark in known if MIN_WATERMARK < watermark < MAX_WATERMARK}

    def restore(self, snapshots: Iterable[Mapping[str, int]], now: int) -> None:
        """Restore each channel to the lowest watermark that any subtask of an earlier run had.

        The parallelism may have changed, so each channel begins at the lowest watermark of the previous ones. The partitions
        of a source are expected as before.

        Args:
            snapshots: The results of `snapshot` of each subtask.
            now: The current time, ms since 1970.
        """
        lowest: dict[str, int] = {}
        taken = list(snapshots)
        for known in taken:
            for channel in {stem(name) for name in known}:
                mine = min(watermark for name, watermark in known.items() if stem(name) == channel)
                lowest[channel] = min(lowest.get(channel, mine), mine)
        for channel in self._watermarks:
            self._watermarks[channel] = lowest.get(stem(channel), MIN_WATERMARK)
        for channel, watermark in lowest.items():
            if self._whole(channel) != channel:
                self.take(channel, watermark, idle=False, now=now)
        if self._watermarks:
            self._output = min(self._watermarks.values())
        self.finish_epoch()

    def _whole(self, channel: str) -> str:
        """Return the channel that a partition's channel belongs to; other channels are returned unchanged."""
        whole = whole_channel(channel)
        return whole if channel not in self._timeouts and whole in self._timeouts else channel

    def _take_place(self, channel: str) -> None:
        """Replace a source's channel with its partition's; or the other way round, if the source has none any more."""
        for other in list(self._watermarks):
            if other == self._whole(channel) or self._whole(other) == channel:
                del self._watermarks[other], self._heard[other]
                self._idle.discard(other)
                self._catching_up.discard(other)


def stem(channel: str) -> str:
    """Return the common part of an edge's channels: `uid/edge` of `uid/edge/subtask`."""
    head, _, last = channel.rpartition("/")
    before = head.rpartition("/")[2]
    return head if before.isdigit() and last.isdigit() else channel

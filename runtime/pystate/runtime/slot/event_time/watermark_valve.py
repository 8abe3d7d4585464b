"""The watermarks of one input's channels, combined by minimum (Flink's StatusWatermarkValve)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pystate.runtime.plan.event_time import whole_channel
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK


class WatermarkValve:
    """How far each channel of an input is. Nothing here goes back but by `roll_back`.

    The lasting partitions of a source are channels each. As long as no row of any has come, the source's own channel stands
    for them; a partition counts from its first row on.

    A channel that was idle and comes back behind the input's watermark is left out until it has caught up, as in Flink: what
    comes on it is late whatever others wait for. Partitions of one source are not, as in Flink's multiplexer of splits.

    Args:
        channels: Those that are waited for, with the time after which one without elements is idle, ms; None for never.
        now: The time of the clock, ms since 1970.

    Attributes:
        is_idle: Whether all channels are idle: then nobody waits for this input.
    """

    def __init__(self, channels: Mapping[str, int | None], now: int) -> None:
        self.is_idle = False
        self._timeouts = dict(channels)
        self._watermarks = dict.fromkeys(channels, MIN_WATERMARK)
        self._heard = dict.fromkeys(channels, now)
        self._idle: set[str] = set()
        self._behind: set[str] = set()  # those that have come back, and not caught up yet
        self._output = MIN_WATERMARK
        self.finish_epoch()

    @property
    def has_channels(self) -> bool:
        """Whether watermarks come on this input at all."""
        return bool(self._watermarks)

    def take(self, channel: str, watermark: int, *, idle: bool, now: int) -> None:
        """Take what a channel says of itself.

        Args:
            channel: Its name; one that isn't waited for counts from now on.
            watermark: Event time, ms since 1970; `MIN_WATERMARK` for none.
            idle: Whether nobody needs to wait for it.
            now: The time of the clock, ms since 1970.
        """
        if channel not in self._watermarks:
            self._take_place(channel)
        self._watermarks[channel] = max(self._watermarks.get(channel, MIN_WATERMARK), watermark)
        self._heard[channel] = now
        if idle:
            self._idle.add(channel)
        if self._watermarks[channel] >= self._output:
            self._behind.discard(channel)
        elif channel in self._idle and channel in self._timeouts:
            self._behind.add(channel)
        if not idle:
            self._idle.discard(channel)

    def advance(self, now: int, ended: Collection[str] = ()) -> int:
        """Return the input's watermark: the lowest of the channels that aren't idle; where all are, it stands still.

        A channel at the end of event time is ended, and isn't waited for either. (In Flink it is the lowest where the others
        are idle: event time jumps to its end, and what comes on them later is late.)

        Args:
            now: The time of the clock, ms since 1970.
            ended: Channels on which nothing comes any more, those of partitions by their source's. Nobody waits for them,
                and event time is at its end where there are no others. Who knows says so in each epoch: it is no state.
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
        waited_for = [live[channel] for channel in active if channel not in self._behind]
        if waited_for:
            self._output = max(self._output, min(waited_for))
        return self._output

    def finish_epoch(self) -> None:
        """Make what has come since the last epoch part of what is known."""
        self._finished = (dict(self._watermarks), dict(self._heard), set(self._idle), set(self._behind), self._output)

    def roll_back(self) -> None:
        """Forget what has come since the last finished epoch."""
        watermarks, heard, idle, behind, self._output = self._finished
        self._watermarks, self._heard, self._idle, self._behind = dict(watermarks), dict(heard), set(idle), set(behind)
        self.is_idle = self.has_channels and all(channel in self._idle for channel in self._watermarks)

    def snapshot(self) -> dict[str, int]:
        """Return how far each channel is; nothing of those that are at their end: who goes on behind it isn't late."""
        known = self._watermarks.items()
        return {channel: watermark for channel, watermark in known if MIN_WATERMARK < watermark < MAX_WATERMARK}

    def restore(self, snapshots: Iterable[Mapping[str, int]], now: int) -> None:
        """Begin where the subtasks of an earlier run stood: each channel at the lowest watermark that any of them had.

        The subtasks of a task may be others than before: each of its channels begins at the lowest of the old ones. The
        partitions of a source are waited for as before.

        Args:
            snapshots: What `snapshot` gave for each subtask.
            now: The time of the clock, ms since 1970.
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
        """Return the channel that a partition's is a part of; others as they are."""
        whole = whole_channel(channel)
        return whole if channel not in self._timeouts and whole in self._timeouts else channel

    def _take_place(self, channel: str) -> None:
        """Let a partition's channel stand in the place of its source's; or that one again, where the source has none now."""
        for other in list(self._watermarks):
            if other == self._whole(channel) or self._whole(other) == channel:
                del self._watermarks[other], self._heard[other]
                self._idle.discard(other)
                self._behind.discard(other)


def stem(channel: str) -> str:
    """Return what the channels of one edge have in common: `uid/edge` of `uid/edge/subtask`."""
    head, _, last = channel.rpartition("/")
    before = head.rpartition("/")[2]
    return head if before.isdigit() and last.isdigit() else channel

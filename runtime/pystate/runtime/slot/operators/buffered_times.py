"""Which timestamps a buffer of elements by timestamp has, sorted, so that those of an interval are found at once.

The state has no order. So the timestamps of keys that elements came for stay in memory over epochs, as far as the backend
allows; those of others are read from the state again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable

_KEY_BYTES = 300
"""The memory of a key besides its timestamps: a place in a dict, the key, and an array."""

_TIME_BYTES = 8


class BufferedTimes:
    """The timestamps of a buffer, by key.

    Args:
        read: Returns the timestamps of the current key, in any order.
        most_bytes: About how much memory they may take.
    """

    def __init__(self, read: Callable[[], Iterable[int]], most_bytes: int) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._times: dict[Hashable, array[int]] = {}
        self._bytes = 0

    def between(self, key: Hashable, lower: int, upper: int) -> Iterable[int]:
        """Return the timestamps of an interval, in order.

        Args:
            key: The current key.
            lower: The first that counts.
            upper: The last that counts.
        """
        times = self._times.get(key)
        if times is None:
            times = self._load(key)
        start = bisect_left(times, lower)
        return times[start : bisect_right(times, upper, start)]

    def _load(self, key: Hashable) -> array[int]:
        times = array("q", sorted(self._read()))
        if self._bytes > self._most_bytes:
            self.clear()
        self._bytes += _KEY_BYTES + _TIME_BYTES * len(times)
        self._times[key] = times
        return times

    def add(self, key: Hashable, time: int) -> bool:
        """Add a timestamp; return whether the buffer is known not to have had it."""
        times = self._times.get(key)
        if times is None:
            return False
        if not times or times[-1] < time:
            times.append(time)
        else:
            place = bisect_left(times, time)
            if times[place] == time:
                return False
            times.insert(place, time)
        self._bytes += _TIME_BYTES
        return True

    def remove(self, key: Hashable, time: int) -> None:
        """Remove a timestamp, which the buffer needn't have had."""
        times = self._times.get(key)
        if times is None:
            return
        place = bisect_left(times, time)
        if place == len(times) or times[place] != time:
            return
        del times[place]
        self._bytes -= _TIME_BYTES
        if not times:
            del self._times[key]
            self._bytes -= _KEY_BYTES

    def clear(self) -> None:
        """Forget all: they are read from the state again."""
        self._times.clear()
        self._bytes = 0

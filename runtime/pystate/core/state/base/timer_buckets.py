"""In-memory timers of one key group by time: those added by the running epoch, or those of the hashmap backend.

Timers of windows share their times, so a heap has only the times, and a bucket per time has the timers in insertion order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from pystate.core.state.base.timer_schema import Timer


class TimerBuckets:
    """The timers of one key group. It may contain timers that were removed elsewhere, which readers must skip.

    Args:
        timers: The initial timers.

    Attributes:
        size: Their number. Callers that pop a timer from `front` must decrement it.
    """

    __slots__ = ("_buckets", "_times", "_turned", "size")

    def __init__(self, timers: Iterable[Timer] = ()) -> None:
        self._times: list[int] = []  # a heap
        self._buckets: dict[int, list[Timer]] = {}
        self._turned: set[int] = set()  # times whose bucket is reversed, with its first timer at the end
        self.size = 0
        for timer in timers:
            self.add(timer)

    def add(self, timer: Timer) -> None:
        """Add a timer after those of the same time."""
        time = timer[0]
        self.size += 1
        bucket = self._buckets.get(time)
        if bucket is None:
            self._buckets[time] = [timer]
            heapq.heappush(self._times, time)
        elif time in self._turned:
            bucket.insert(0, timer)
        else:
            bucket.append(timer)

    def last_time(self) -> int | None:
        """Return the highest time; None if there is none."""
        return max(self._times, default=None)

    def front(self) -> list[Timer] | None:
        """Return the timers of the lowest time, the first at the end, to be popped from; None if there are none."""
        times, buckets, turned = self._times, self._buckets, self._turned
        while times:
            time = times[0]
            bucket = buckets[time]
            if bucket:
                if time not in turned:
                    turned.add(time)
                    bucket.reverse()
                return bucket
            heapq.heappop(times)
            del buckets[time]
            turned.discard(time)
        return None

    def put_back(self, timers: Sequence[Timer]) -> None:
        """Put back timers before the others of their times, in the order in which they were popped."""
        for timer in reversed(timers):
            time = timer[0]
            bucket = self._buckets.get(time)
            if bucket is None:
                bucket = self._buckets[time] = []
                heapq.heappush(self._times, time)
            if time not in self._turned:
                self._turned.add(time)
                bucket.reverse()
            bucket.append(timer)
        self.size += len(timers)

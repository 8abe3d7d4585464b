"""The results of a job that the program iterates over (`DataStream.execute_and_collect`)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pystate.common.errors import JobCancelledError
from pystate.common.job_client import JobClient

T = TypeVar("T")

_MOST_BATCHES = 2
"""How many batches wait for the program; with those that both sides hold, the bound of its memory."""
_LOOK_S = 0.1


class ResultQueue:
    """A bounded queue of batches between the job and the program; the job waits while it is full."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[Any]] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._ended = False
        self._closed = False

    def put(self, elements: Sequence[Any], is_over: Callable[[], bool] = lambda: False) -> bool:
        """Add elements, waiting while the queue is full.

        Args:
            elements: The elements, in order.
            is_over: Returns whether to give up; called while the queue is full.

        Returns:
            True if they were added or the program has closed the iterator; False if `is_over` returned True.
        """
        with self._changed:
            while len(self._batches) >= _MOST_BATCHES and not self._closed:
                if is_over():
                    return False
                self._changed.wait(_LOOK_S)
            if not self._closed and elements:
                self._batches.append(elements)
                self._changed.notify_all()
            return True

    def end(self, error: BaseException | None = None) -> None:
        """Mark the end of the elements.

        Args:
            error: What the job failed with; raised after the last element.
        """
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self, deadline: float | None = None) -> Sequence[Any] | None:
        """Wait for the next batch; None after the last one.

        Args:
            deadline: Until when, on the monotonic clock; None for as long as it takes.

        Raises:
            TimeoutError: There is none by then.
            Exception: What the job failed with.
        """
        with self._changed:
            while not self._batches and not self._ended and not self._closed:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self._changed.wait(left)
            if self._closed:
                return None
            if self._batches:
                batch = self._batches.popleft()
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Drop all queued and future elements: the program wants no more."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()


class CloseableIterator(Generic[T]):
    """The elements of a stream, while its job runs. Closing it ends the job.

    After the last element the job has ended; if it failed, its error is raised then.

    Args:
        queue: Where the elements come from.
        job: The job.
    """

    def __init__(self, queue: ResultQueue, job: JobClient) -> None:
        self._queue = queue
        self._job = job
        self._batch: Iterator[Any] = iter(())

    def __iter__(self) -> CloseableIterator[T]:
        """Return itself."""
        return self

    def __next__(self) -> T:
        """Wait for the next element.

        Raises:
            StopIteration: There are no more.
            PystateError: The job failed, or was cancelled.
        """
        while True:
            for element in self._batch:
                return element  # type: ignore[no-any-return]
            try:
                batch = self._queue.take()
            except KeyboardInterrupt:  # a notebook keeps the frame of a cell that was interrupted, and with it the iterator
                self.close()
                raise
            if batch is None:
                raise StopIteration
            self._batch = iter(batch)

    def next(self) -> T:
        """Return the next element, as `next(iterator)` does."""
        return self.__next__()

    def __enter__(self) -> CloseableIterator[T]:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Cancel the job if it still runs, and wait for its end; does nothing if called again."""
        self._batch = iter(())
        self._queue.close()
        result = self._job.get_job_execution_result()
        if result.done():
            return
        self._job.cancel()
        try:
            result.result()
        except JobCancelledError:
            return

"""Reads a job's stdout and logs from the job manager by offset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pystate.runtime.logs.log_reader import LogGoneError
from pystate.runtime.rest.own_job_messages import DriverInfo
from pystate_cli.client.rest_client import RestClient

_POLL_SECONDS = 0.2
_PIECE = 64 << 10


def lost_sentence(count: int) -> str:
    """Return the message about bytes of a job's output that were deleted before they were read."""
    return f"{count:,} bytes of the output are gone: the job prints faster than it is read; see pystate.log.max-size."


class JobOutput:
    """One file of a job's output.

    Args:
        client: The job manager.
        job_id: The job.
        name: `stdout` or `log`.
        lost: Called with the number of bytes that were deleted before they were read.
    """

    def __init__(
        self, client: RestClient, job_id: str, name: str, *, lost: Callable[[int], object] = lambda _bytes: None
    ) -> None:
        self._lost = lost
        self._client = client
        self._job = f"/pystate/jobs/{job_id}"
        self._name = name

    def from_(self, offset: int, *, follow: bool) -> Iterator[bytes]:
        """Yield the output from `offset` to the end; with `follow`, until the job ends."""
        while True:
            data, ended, offset = self.read_on(offset)
            if data:
                yield data
                offset += len(data)
            if ended or (not data and not follow):
                return
            if not data:
                time.sleep(_POLL_SECONDS)

    def read_on(self, offset: int) -> tuple[bytes, bool, int]:
        """Return the next bytes, whether they are the last ones, and their offset.

        The offset is later than `offset` if bytes were deleted meanwhile, since the job prints faster than it is read.
        """
        while True:
            try:
                return (*self._client.read(f"{self._job}/{self._name}?offset={offset}"), offset)
            except LogGoneError:
                pass
            first = self.begin()
            self._lost(first - offset)
            offset = max(offset, first)

    def begin(self) -> int:
        """Return the first available offset: a very large log loses its beginning."""
        return self._extent()[0]

    def offset_of_last(self, lines: int) -> int:
        """Return the offset of the last lines, without reading the lines before them."""
        first, size = self._extent()
        start, tail = size, b""
        while start > first:
            # a newline at the very end doesn't begin a new line
            newlines = tail.count(b"\n", 0, max(0, len(tail) - 1))
            if tail and newlines >= lines:
                break
            begin = max(first, start - _PIECE)
            tail = self._read(begin, start) + tail
            start = begin
        position = len(tail) - 1 if tail.endswith(b"\n") else len(tail)
        for _ in range(lines):
            position = tail.rfind(b"\n", 0, max(0, position))
            if position < 0:
                return start
        return start + position + 1 if lines else size

    def _extent(self) -> tuple[int, int]:
        begin, end = getattr(self._client.get(self._job, DriverInfo).extents, self._name)
        return int(begin), int(end)

    def _read(self, begin: int, end: int) -> bytes:
        data = b""
        while len(data) < end - begin:
            piece, _ = self._client.read(f"{self._job}/{self._name}?offset={begin + len(data)}")
            if not piece:
                break
            data += piece
        return data[: end - begin]

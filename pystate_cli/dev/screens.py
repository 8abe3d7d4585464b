"""Where a session is shown: one screen that is redrawn, or lines."""

from __future__ import annotations

import time
from collections import deque

from pystate.common.errors import ControlError, PystateError
from pystate_cli.client.job_output import JobOutput, lost_sentence
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.console import Console
from pystate_cli.console.live_region import LiveRegion
from pystate_cli.console.watching import Keyboard
from pystate_cli.sampling.job_sampler import JobSampler
from pystate_cli.views.dev_view import DevNews, dev_view, news_lines

_READ_SECONDS = 0.1
_DRAW_SECONDS = 0.25
_OUTPUT_LINES = 200
_QUIT = "q"


class FollowedOutput:
    """What the jobs of a session print, each from its beginning.

    Args:
        console: Is told of output that is lost.
        client: The job manager.
    """

    def __init__(self, console: Console, client: RestClient) -> None:
        self._console = console
        self._client = client
        self._followed: list[tuple[JobOutput, int]] = []
        self._next = 0.0

    def follow(self, job_id: str, *, from_now: bool = False) -> None:
        """Read this job's output, too, from its beginning or from now on."""
        output = JobOutput(self._client, job_id, "stdout", lost=lambda count: self._console.warning(lost_sentence(count)))
        self._followed.append((output, output.offset_of_last(0) if from_now else 0))

    def read(self) -> bytes:
        """Return what has been printed since the last time."""
        now = time.monotonic()
        if now < self._next:
            return b""
        self._next = now + _READ_SECONDS
        read, followed = b"", []
        for output, offset in self._followed:
            try:
                data, ended, offset = output.read_on(offset)
            except ControlError:
                raise
            except PystateError:  # the job has been forgotten
                continue
            read += data
            if not ended:
                followed.append((output, offset + len(data)))
        self._followed = followed
        return read


class LineScreen:
    """Shows a session in a pipe: the output on stdout, everything else as lines on stderr.

    Args:
        console: The console.
        client: The job manager.
    """

    def __init__(self, console: Console, client: RestClient) -> None:
        self._console = console
        self._output = FollowedOutput(console, client)
        self._news = DevNews(program="")

    def show(self, news: DevNews) -> None:
        """Print what has changed."""
        for line in news_lines(self._news, news):
            self._console.info(line)
        self._news = news

    def followed(self, job_id: str, *, from_now: bool = False) -> None:
        """Print what this job prints."""
        if not from_now:
            self._console.info(f"Job has been submitted with JobID {job_id}")
        self._output.follow(job_id, from_now=from_now)

    def wait(self, seconds: float) -> bool:
        """Wait; the session ends by a signal."""
        data = self._output.read()
        if data:
            self._console.raw(data)
        else:
            time.sleep(seconds)
        return False


class FullScreen:
    """Shows a session on a terminal, redrawn in place.

    Args:
        console: The console.
        client: The job manager.
        region: Where it is drawn.
        keyboard: Its keys: q ends the session.
    """

    def __init__(self, console: Console, client: RestClient, region: LiveRegion, keyboard: Keyboard) -> None:
        self._console = console
        self._client = client
        self._region = region
        self._keyboard = keyboard
        self._output = FollowedOutput(console, client)
        self._lines: deque[str] = deque(maxlen=_OUTPUT_LINES)
        self._rest = b""
        self._sampler: JobSampler | None = None
        self._news = DevNews(program="")
        self._next = 0.0

    def show(self, news: DevNews) -> None:
        """Take over what has changed, and draw it at once."""
        self._news, self._next = news, 0.0

    def followed(self, job_id: str, *, from_now: bool = False) -> None:
        """Show the figures and the output of this job."""
        self.close()
        self._sampler = JobSampler(self._client.another(), job_id)
        self._sampler.start()
        self._output.follow(job_id, from_now=from_now)

    def close(self) -> None:
        """Take no more figures."""
        if self._sampler is not None:
            self._sampler.stop()

    def wait(self, seconds: float) -> bool:
        """Wait, and draw at a readable rate; return whether q was pressed."""
        *lines, self._rest = (self._rest + self._output.read()).split(b"\n")
        self._lines.extend(line.decode(errors="replace") for line in lines)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _DRAW_SECONDS
            self._draw()
        return _QUIT in self._keyboard.wait(seconds).lower()

    def _draw(self) -> None:
        sample = None if self._sampler is None else self._sampler.latest
        width, height = self._region.width, self._region.height
        view = dev_view(self._news, sample, tuple(self._lines), width, height, unicode=self._console.has_unicode)
        self._region.draw(view)

"""Heartbeats to a job's driver. A driver that is stopped, or hangs without using CPU, is replaced."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import HeartbeatManagerOptions
from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.files.job_files import read_job_file
from pystate.common.files.regular_files import MAX_WORD_BYTES
from pystate.common.processes.control import connect
from pystate.common.processes.processes import cpu_ticks, is_stopped
from pystate.common.time import current_time_ms, steady_ms
from pystate.runtime.job_folder.small_files import DriverAddressFile

logger = logging.getLogger(__name__)


class Sign(Enum):
    """The result of one heartbeat."""

    ANSWERS = "it answers, or has still to begin to"
    RUNS = "it doesn't answer, and uses a processor: native code may hold its interpreter"
    HANGS = "it doesn't answer, and does nothing"
    STOPPED = "it was stopped (SIGSTOP, a debugger)"


@dataclass(frozen=True)
class Silence:
    """A period without an answer from a driver.

    Attributes:
        since: When it began, ms since 1970.
        lasted_ms: How long it was observed; time without heartbeats doesn't count.
        idle_ms: The last part of it in which the process used no CPU and couldn't have answered.
        last: The last heartbeat result.
    """

    since: int
    lasted_ms: int
    idle_ms: int
    last: Sign

    def describe(self, pid: int | None) -> str:
        """Return a sentence about it.

        Args:
            pid: The process id of the driver.
        """
        since = time.strftime("%H:%M:%S", time.localtime(self.since / 1000))
        return f"The job's driver (process {pid}) gives no sign of life since {since}: {self.last.value}."


@dataclass(frozen=True)
class HeartbeatTerms:
    """Interval and timeout of heartbeats.

    Attributes:
        interval_ms: The time between two heartbeats.
        timeout_ms: The time after which an idle, silent driver is replaced.
    """

    interval_ms: int = 10_000
    timeout_ms: int = 50_000

    @classmethod
    def of(cls, configuration: Configuration) -> HeartbeatTerms:
        """Return the terms of a job manager's configuration."""
        options = HeartbeatManagerOptions
        return cls(configuration.get(options.HEARTBEAT_INTERVAL), configuration.get(options.HEARTBEAT_TIMEOUT))

    def after(self, silence: Silence | None, sign: Sign, passed_ms: int, now_ms: int) -> Silence | None:
        """Return the silence after one more heartbeat.

        Args:
            silence: The silence before it; None for a driver that has answered.
            sign: The result of the heartbeat.
            passed_ms: The time since the last heartbeat.
            now_ms: The current time, ms since 1970.
        """
        if sign is Sign.ANSWERS:
            return None
        if silence is None:
            return Silence(now_ms, 0, 0, sign)
        watched = min(passed_ms, 2 * self.interval_ms)  # this process may have been stopped
        idle_ms = 0 if sign is Sign.RUNS else silence.idle_ms + watched
        return replace(silence, lasted_ms=silence.lasted_ms + watched, idle_ms=idle_ms, last=sign)

    def is_lost(self, silence: Silence | None) -> bool:
        """Return whether a driver has been silent for too long, and couldn't have answered meanwhile."""
        return silence is not None and silence.idle_ms >= self.timeout_ms

    def is_told(self, silence: Silence) -> bool:
        """Return whether to report the silence: an answer may be late on a busy machine."""
        return silence.last is Sign.STOPPED or silence.lasted_ms >= self.timeout_ms / 2


class DriverHeartbeat:
    """Sends heartbeats to one driver until it has ended.

    Args:
        directory: The job's folder, with the address of the driver.
        pid: Its process id.
        terms: Interval and timeout.
        on_silence: Called with a silence to report, and with None once the driver answers again.
        on_lost: Called when it has to be replaced; called again until it returns true.
    """

    def __init__(
        self,
        directory: JobDirectory,
        pid: int,
        terms: HeartbeatTerms,
        on_silence: Callable[[Silence | None], object],
        on_lost: Callable[[Silence], bool],
    ) -> None:
        self._directory = directory
        self._pid = pid
        self._terms = terms
        self._on_silence = on_silence
        self._on_lost = on_lost
        self._ticks: int | None = None
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop the heartbeats: the driver has ended."""
        self._ended.set()

    def run(self) -> None:
        """Send heartbeats until the end."""
        silence, told, looked_at = None, False, steady_ms()
        while not self._ended.wait(self._terms.interval_ms / 1000):
            sign, now = self._look(), steady_ms()
            silence, looked_at = self._terms.after(silence, sign, now - looked_at, current_time_ms()), now
            if self._ended.is_set():
                return
            if silence is None:
                if told:
                    self._on_silence(None)
                told = False
            elif self._terms.is_lost(silence):
                self._on_silence(silence)
                if self._on_lost(silence):
                    return
            elif self._terms.is_told(silence):
                self._on_silence(silence)
                told = True

    def _look(self) -> Sign:
        if is_stopped(self._pid):
            return Sign.STOPPED
        if self._answers():
            self._ticks = None
            return Sign.ANSWERS
        before, self._ticks = self._ticks, cpu_ticks(self._pid)
        # unknown on this machine, or nothing to compare with yet
        unknown = self._ticks is None or before is None
        return Sign.RUNS if unknown or self._ticks != before else Sign.HANGS

    def _answers(self) -> bool:
        """Return whether the driver proves the job's secret, for which its interpreter must run; True while it starts."""
        try:
            address = DriverAddressFile.read_from(self._directory.driver)
            if address is None or address.pid != self._pid:
                return True
            secret = read_job_file(self._directory.secret, MAX_WORD_BYTES)
            connect((address.host, address.port), secret, timeout=self._terms.interval_ms / 1000).close()
        except (OSError, PystateError, ValueError) as error:
            logger.debug("driver %d does not answer: %s", self._pid, error)
            return False
        return True

"""A job manager that is killed -9 before a chosen step of the rescales that it does itself.

Its steps are what it does to files, to drivers, and what it asks of them, on the threads of rescales.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pystate.common.files.home import read_json
from pystate.ops.jobmanager.drivers.driver_gateway import DriverGateway
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.rescalings import Rescalings
from tests.ops.jobmanager import harness
from tests.ops.jobmanager.harness import ManagerProcess
from tests.waiting import wait_until

STEP = "DIES_BEFORE_STEP_OF_A_RESCALE"
_CHANGES = ("mkdir", "rename", "replace", "unlink", "link", "fsync")
_TOLD = ("stop", "cancel")


class Dying:
    """Counts steps, and kills the process before one.

    Args:
        last: The step.
    """

    def __init__(self, last: int) -> None:
        self._last = last
        self._seen = 0
        self._inside = threading.local()

    def install(self) -> None:
        for name in _CHANGES:
            setattr(os, name, self._counted(getattr(os, name)))
        DriverLauncher.start = self._counted(DriverLauncher.start)  # type: ignore[method-assign]
        call = DriverGateway.call
        counted = self._counted(call)

        @functools.wraps(call)
        def asked(gateway: Any, op: str, *arguments: Any, **named: Any) -> Any:
            return (counted if op in _TOLD else call)(gateway, op, *arguments, **named)

        DriverGateway.call = asked  # type: ignore[method-assign]
        Rescalings.trigger = self._counting(Rescalings.trigger)  # type: ignore[method-assign]
        Rescalings._run = staticmethod(self._counting(Rescalings._run))  # type: ignore[method-assign]

    def _counting(self, act: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(act)
        def acting(*arguments: Any, **named: Any) -> Any:
            self._inside.counts = True
            try:
                return act(*arguments, **named)
            finally:
                self._inside.counts = False

        return acting

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*arguments: Any, **named: Any) -> Any:
            if getattr(self._inside, "counts", False):
                if self._seen == self._last:
                    os.kill(os.getpid(), signal.SIGKILL)
                    signal.pause()
                self._seen += 1
            return real(*arguments, **named)

        return call


class DyingManager(ManagerProcess):
    """A job manager that is killed before a step of a rescale."""

    serve = f"import os; from {__name__} import Dying, STEP; Dying(int(os.environ[STEP])).install()\n{harness._SERVE}"

    def dies_before(self, step: int) -> None:
        """Choose the step, before it is started."""
        self.variables[STEP] = str(step)

    @property
    def is_dead(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def dies_or(self, done: Callable[[], bool]) -> bool:
        """Wait until it has died, or something is done; return whether it has died."""

        def either() -> bool:
            if self.is_dead:
                return True
            try:
                return done()
            except (OSError, ValueError):  # it has just died
                return False

        wait_until(either)
        return self.is_dead


def lives_of(jobs: Path) -> list[tuple[int, int, str]]:
    """Return when jobs ran: from when to when in ms, in the order of their begin, and which."""
    found = []
    for folder in jobs.iterdir():
        status = read_json(folder / "status.json")
        if status is not None and "RUNNING" in status["timestamps"]:
            end = status["end_time"] if status["end_time"] > 0 else 1 << 62
            found.append((int(status["timestamps"]["RUNNING"]), int(end), folder.name))
    return sorted(found)

"""A process that is killed at a chosen step of what it does to the file system, in this process."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.supervision.job_manager_runner import JobManagerRunner

_CALLS = ("open", "mkdir", "rename", "replace", "unlink", "remove", "link", "symlink", "truncate", "rmdir", "fsync")


class Killed(BaseException):
    """SIGKILL: nothing that would clean up may still do anything."""


class DyingProcess:
    """Counts the steps that change files; from the chosen one on nothing happens any more.

    Args:
        last_step: The step before which it dies; None for never.
    """

    def __init__(self, last_step: int | None = None) -> None:
        self.last_step = last_step
        self.steps: list[str] = []

    def step(self, name: str) -> None:
        if self.last_step is not None and len(self.steps) >= self.last_step:
            raise Killed(name)
        self.steps.append(name)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the code in the block be the process."""
        with pytest.MonkeyPatch.context() as patch, _without_finalizers():
            for name in _CALLS:
                patch.setattr(os, name, self._counted(name, getattr(os, name)))
            # its threads die with it: only what it does at once is of interest
            patch.setattr(JobManagerRunner, "_on_a_thread", self._inline)
            with contextlib.suppress(Killed):
                yield

    @staticmethod
    def _inline(_runner: object, what: str, act: Callable[[], object]) -> None:
        if what == "restart":
            act()

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            reads = name == "open" and not (arguments[1] if len(arguments) > 1 else 0) & (os.O_WRONLY | os.O_RDWR)
            if reads:
                return real(*arguments, **named)
            try:
                self.step(name)
            except Killed:
                if name == "fsync" and stat.S_ISREG((written := os.fstat(arguments[0])).st_mode):
                    os.ftruncate(arguments[0], written.st_size // 2)  # half of what was written is on the disk
                raise
            return real(*arguments, **named)

        return call


@contextlib.contextmanager
def _without_finalizers() -> Iterator[None]:
    """Leave cyclic garbage alone: what other tests have left deletes its files, which would count as steps."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class FakeProcess:
    """A driver whose end nobody sees."""

    def __init__(self, pid: int, home: Path, leader: int | None) -> None:
        self.pid = pid
        self.home = home
        self.leader = leader

    def wait(self) -> None:
        threading.Event().wait()


class FakeDrivers(DriverLauncher):
    """Starts drivers that are nothing but a number, which outlive the process that started them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: DyingProcess | None = None
        self.started: list[str] = []
        self.leaders: list[int | None] = []
        self.alive: dict[str, FakeProcess] = {}
        self.twice: list[str] = []
        self.replaced: list[str] = []

    def start(self, job_id: str, submission: Any, environment: Any, leader: int | None = None) -> Any:
        del submission, environment
        if self.process is not None:
            self.process.step("start")
        if job_id in self.alive:
            self.twice.append(job_id)
        self.started.append(job_id)
        self.leaders.append(leader)
        self.alive[job_id] = FakeProcess(1_000_000 + len(self.started), self.home, leader)
        return self.alive[job_id]

    def end_orphans(self, job_id: str, driver: int) -> None:
        del job_id, driver

    def end_replaced(self, job_id: str, driver: Any) -> None:
        assert self.kill(job_id) is driver
        self.replaced.append(job_id)

    def find_running(self, of_other_homes: Any = ()) -> Any:
        del of_other_homes
        return dict(self.alive)

    def kill(self, job_id: str) -> FakeProcess:
        return self.alive.pop(job_id)

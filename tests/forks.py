"""Processes of tests that are forked from one that has imported what they need: importing it took longer than most tests."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import reduction
from pathlib import Path
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        # slots
        "pystate.runtime.slot.process",
        "pystate.runtime.engines.real_time.driver.real_time_job_engine",
        "pystate.runtime.engines.real_time.slot.real_time_subtask",
        "pystate.core.state.rocksdb.rocksdb_keyed_state_backend",
        # job managers
        "pystate.ops.jobmanager.server",
        # what programs are asked about with
        "pystate.runtime.driver.program_plan",
        "pystate.runtime.driver.program_check",
        "pystate.testing.debug_process",
        "pystate.datastream",
    ]
)
"""The process that all are forked from is one per process of the tests, so that this is the only list."""


class _Descriptor:
    """An open file that goes to a forked process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self._number),)  # type: ignore[attr-defined]


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


class ForkedPython:
    """What `subprocess.Popen` is for `[sys.executable, "-m", module, *words]`, or for `-c` and code; it reads nothing.

    Args:
        command: The command.
        env: Its environment; None for ours.
        cwd: Its folder; None for ours.
        stdout: A descriptor; None for ours.
        stderr: A descriptor; None for ours.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self.args = list(command)
        python, option, what, *words = command
        assert python == sys.executable
        run = {"-m": _run_module, "-c": _run_code}[option]
        outputs = _Descriptor(1 if stdout is None else stdout), _Descriptor(2 if stderr is None else stderr)
        arguments = (run, what, words, dict(os.environ if env is None else env), None if cwd is None else str(cwd), *outputs)
        self._process = FORKS.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run_module(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` does without `check`, for a command of `ForkedPython`."""
    streams = {name: options.get(name) for name in ("env", "cwd", "stdout", "stderr")}
    return subprocess.CompletedProcess(list(command), ForkedPython(command, **streams).wait())


def _run(
    run: Callable[[str], object],
    what: str,
    words: list[str],
    env: dict[str, str],
    cwd: str | None,
    stdout: int,
    stderr: int,
) -> None:
    for descriptor, standard in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["-c", *words]
    sys.path.insert(0, os.getcwd())
    run(what)


def _run_module(name: str) -> None:
    sys.modules.pop(name, None)  # it becomes __main__
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(code: str) -> None:
    exec(code, {"__name__": "__main__"})  # noqa: S102 - of the tests

"""Processes of tests that are forked from one that has imported what they need: importing it took longer than most tests."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import reduction
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        "pystate.runtime.slot.process",
        "pystate.runtime.engines.real_time.driver.real_time_job_engine",
        "pystate.runtime.engines.real_time.slot.real_time_subtask",
        "pystate.core.state.rocksdb.rocksdb_keyed_state_backend",
        # what a program is asked about with, and what it imports
        "pystate.runtime.driver.program_plan",
        "pystate.runtime.driver.program_check",
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


def run_module(command: Sequence[str], *, stdout: int, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` does for `[sys.executable, "-m", module, *words]` with nothing on stdin."""
    python, option, module, *words = command
    assert (python, option) == (sys.executable, "-m")
    arguments = (module, words, env, _Descriptor(stdout), _Descriptor(2))
    process = FORKS.Process(target=_module, args=arguments)
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return subprocess.CompletedProcess(list(command), code)


def _module(module: str, words: list[str], env: dict[str, str], stdout: int, stderr: int) -> None:
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [module, *words]
    sys.path.insert(0, os.getcwd())
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)

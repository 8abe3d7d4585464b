"""Processes of tests that are forked from one that has imported what they need: importing it took longer than most tests."""

from __future__ import annotations

import ctypes
import fcntl
import multiprocessing
import multiprocessing.process
import os
import runpy
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, reduction, resource_tracker
from pathlib import Path
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        "pandas",  # pyarrow imports it before it makes its first array
        # slots
        "pystate.runtime.slot.process",
        "pystate.runtime.engines.real_time.driver.real_time_job_engine",
        "pystate.runtime.engines.real_time.slot.real_time_subtask",
        "pystate.core.state.rocksdb.rocksdb_keyed_state_backend",
        # job managers
        "pystate.ops.jobmanager.server",
        # drivers without Spark
        "tests.ops.jobmanager.fake_driver",
        "pystate.runtime.job_folder.recovery_terms",
        "tests.core.metrics.metrics_answer",
        # what programs are asked about with
        "pystate.runtime.driver.program_plan",
        "pystate.runtime.driver.program_check",
        "pystate.testing.debug_process",
        "pystate.datastream",
        # commands
        "pystate_cli.command_line",
        "pystate_cli.console.live_region",
    ]
)
"""The process that all are forked from is one per process of the tests, or one for all, so that this is the only list."""
_SHARED = ("_forkserver_address", "_forkserver_authkey")
"""What a process needs to know; Python 3.14 has the second."""
FAKE_DRIVER = Path(__file__).parent / "ops" / "jobmanager" / "fake_driver.py"
_MOST_BYTES = 1000
"""Of a command that /proc is made to show: the process that it is forked from has a longer one."""


def offer() -> dict[str, Any]:
    """Start the process that is forked from, and return what `use` needs to have forks of it in another process."""
    server = forkserver._forkserver  # type: ignore[attr-defined]
    server.ensure_running()
    return {name: getattr(server, name) for name in _SHARED if hasattr(server, name)}


def use(offered: Mapping[str, Any]) -> None:
    """Have forks of the process that another one has started: each would import as much."""
    server = forkserver._forkserver  # type: ignore[attr-defined]
    for name, value in offered.items():
        setattr(server, name, value)
    server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)  # whoever has started it keeps it alive
    server.ensure_running = resource_tracker.ensure_running


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
        command: The command; a file that is run is one of `FILES`.
        env: Its environment; None for ours.
        cwd: Its folder; None for ours.
        stdin: A file; None for `os.devnull`. A terminal becomes the one that controls it, where it is a session of its own.
        stdout: A file; None for ours.
        stderr: A file; None for ours.
        start_new_session: Whether it is a session of its own.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        start_new_session: bool = False,
    ) -> None:
        self.args = list(command)
        assert command[0] == sys.executable
        outputs = [
            standard if file is None else file if isinstance(file, int) else file.fileno()
            for standard, file in ((1, stdout), (2, stderr))
        ]
        environment = dict(os.environ if env is None else env)
        folder = None if cwd is None else str(cwd)
        here, there = os.pipe()
        inputs = [] if stdin is None else [stdin if isinstance(stdin, int) else stdin.fileno()]
        files = [_Descriptor(each) for each in (*outputs, *inputs, there)]
        self._process = FORKS.Process(target=_run, args=(self.args, environment, folder, files, start_new_session))
        try:
            self._process.start()
        finally:
            os.close(there)
            # else an end of this process would wait for it, and each start look at it, in any thread
            multiprocessing.process._children.discard(self._process)  # type: ignore[attr-defined]
            os.read(here, 1)  # it is what it says that it is, or has ended
            os.close(here)
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


def start_driver(command: Sequence[str], **options: Any) -> Any:
    """Start a driver as `subprocess.Popen` does: as a fork, if it is one without Spark that can be started here.

    In a process that is a fork itself, each would come of another process that has imported all.
    """
    python, file, *_ = command
    env, cwd = options["env"], options["cwd"]
    path = env.get("PYTHONPATH", "").split(os.pathsep)
    is_ours = (python, file) == (sys.executable, str(FAKE_DRIVER)) and str(FAKE_DRIVER.parents[3]) in path
    fits = sum(map(len, command)) < _MOST_BYTES and all(name.isidentifier() for name in env)
    if not (is_ours and fits and os.access(cwd, os.X_OK) and Path("/proc/self/stat").exists()):
        return subprocess.Popen(command, **options)
    del options["stdin"]
    return ForkedPython(command, **options)


def _run(command: list[str], env: dict[str, str], cwd: str | None, descriptors: list[int], start_new_session: bool) -> None:
    ready = descriptors.pop()
    for descriptor, standard in zip(descriptors, (1, 2, 0), strict=False):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    if len(descriptors) > 2:  # what there is was made for no terminal
        encoding = env.get("PYTHONIOENCODING", "utf-8")
        sys.stdin = open(0, encoding=encoding)
        sys.stdout, sys.stderr = (open(number, "w", encoding=encoding, buffering=1) for number in (1, 2))
    os.environ.clear()
    os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
    if start_new_session:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C must reach it
        _show(command, env)
    os.write(ready, b"1")
    os.close(ready)
    option, *words = command[1:]
    if option in ("-m", "-c"):
        what, *words = words
        sys.argv = ["-c", *words]
        sys.path.insert(0, os.getcwd())
        (_run_module if option == "-m" else _run_code)(what)
    else:
        from tests.ops.jobmanager import fake_driver

        sys.argv = [option, *words]
        sys.exit(fake_driver.main())


def _show(command: list[str], env: Mapping[str, str]) -> None:
    """Let /proc show a command and the environment, as after an exec: the first bytes of both, as far as there is room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    starts, ends = fields[45:49:2], fields[46:49:2]
    first = sorted(env, key=lambda name: not name.startswith("PYSTATE_"))
    for words, start, end in zip((command, [f"{name}={env[name]}" for name in first]), starts, ends, strict=True):
        size = int(end) - int(start)
        text = b"".join(os.fsencode(word) + b"\0" for word in words)
        ctypes.memmove(int(start), text[: size - 1].ljust(size, b"\0"), size)


def _run_module(name: str) -> None:
    sys.modules.pop(name, None)  # it becomes __main__
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(code: str) -> None:
    exec(code, {"__name__": "__main__"})  # noqa: S102 - of the tests

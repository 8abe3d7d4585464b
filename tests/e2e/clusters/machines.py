"""Machines for tests: each a network and processes of its own, so that the processes of one are not seen on the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.clusters.spark_cluster import ROOT, Host
from tests.faults.processes import children, descendants, kill
from tests.waiting import LONGEST_S, wait_until


class Machine:
    """One machine; all of it may be killed, or stopped and continued.

    Args:
        host: Its network.
        root: For its files.
        options: What its configuration says.
    """

    def __init__(self, host: Host, root: Path, options: dict[str, str]) -> None:
        root.mkdir()
        self.address = host.address
        self.home = root / "home"
        lines = [f'"{key}" = "{value}"\n' for key, value in {**options, "rest.address": host.address}.items()]
        (root / "flink-conf.toml").write_text("".join(lines))
        self.environment = {**os.environ, "PYSTATE_HOME": str(self.home), "PYSTATE_CONF_DIR": str(root), "COLUMNS": "200"}
        self.environment.pop("PYTHONPATH", None)
        # the first process of the namespace: none of the others outlives it
        first = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sleep", "infinity"]
        self._outer = subprocess.Popen([*host.prefix, *first])
        self.first = wait_until(lambda: next(iter(children(self._outer.pid)), None))

    def start(self, *command: str, **options: object) -> subprocess.Popen[str]:
        """Start a command on it."""
        inside = ["nsenter", "--target", str(self.first), "--pid", "--mount", "--net", "--", *command]
        return subprocess.Popen(inside, env=self.environment, text=True, cwd=ROOT, **options)

    def pystate(self, *words: object, timeout: float = LONGEST_S) -> tuple[int, str, str]:
        """Call `pystate`; return exit code, stdout and stderr."""
        words = (sys.executable, "-m", "pystate_cli", *map(str, words))
        process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stdout, stderr = process.communicate(timeout=timeout)
        return process.returncode, stdout.strip(), stderr

    def __call__(self, *words: object) -> str:
        """Call `pystate`, which must succeed; return what it prints."""
        code, stdout, stderr = self.pystate(*words)
        assert code == 0, f"{stdout}\n{stderr}"
        return stdout

    def processes(self) -> list[int]:
        """Return all of its processes, by their numbers here."""
        namespace = os.readlink(f"/proc/{self.first}/ns/pid")
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if os.readlink(f"/proc/{name}/ns/pid") == namespace:
                        found.append(int(name))
                except OSError:  # it has ended
                    continue
        return found

    def stop(self) -> None:
        """Let nothing on it go on, as a machine that sleeps."""
        for pid in self.processes():
            kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        for pid in self.processes():
            kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it: all of its processes at once."""
        kill(self.first)
        for pid in descendants(self._outer.pid):
            kill(pid)
        self._outer.wait()

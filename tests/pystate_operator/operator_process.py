"""The operator as a process of its own, with a home and an API server that are given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.ops.jobmanager.harness import PYTHON_PATH, REPOSITORY
from tests.servers.api_server import NAMESPACE
from tests.waiting import LONGEST_S


class OperatorProcess:
    """An operator.

    Args:
        home: The home of the job manager.
        kubeconfig: By which it finds the API server.
        log: Its log.
        variables: More of its environment.
    """

    def __init__(self, home: Path, kubeconfig: Path, log: Path, variables: Mapping[str, str] | None = None) -> None:
        self.log = log
        own = {"PYSTATE_HOME": str(home), "KUBECONFIG": str(kubeconfig), "PYSTATE_CONF_DIR": str(REPOSITORY / "conf")}
        self._environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "NO_PROXY": "127.0.0.1", **own, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> OperatorProcess:
        """Start it, or start it again."""
        command = [sys.executable, "-m", "pystate_operator", "-n", NAMESPACE, "--interval", "1"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        return self

    def kill(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LONGEST_S)

    def stop(self) -> int:
        """Have it end; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(LONGEST_S)


@contextmanager
def running_operator(
    home: Path, kubeconfig: Path, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[OperatorProcess]:
    """Run an operator."""
    operator = OperatorProcess(home, kubeconfig, log, variables).start()
    try:
        yield operator
    finally:
        operator.kill()

"""Programs that run a job in a home of their own, and register it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ops.jobmanager.harness import PYTHON_PATH
from tests.ops.jobmanager.registration.made_registrations import JOB

PROGRAM_FILE = str(Path(__file__).parent / "registering_program.py")
Start = Callable[..., "subprocess.Popen[bytes]"]


class Programs:
    """Starts such programs, which have the secret of the job manager's home.

    Args:
        root: For their homes, beside that of the job manager.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, port: int, home: str = "elsewhere", token: Path | None = None, **options: str
    ) -> subprocess.Popen[bytes]:
        place = self._root / home
        place.mkdir(exist_ok=True)
        shutil.copy(token or self._root / "home" / "token", place / "token")
        command = [sys.executable, PROGRAM_FILE, str(place), JOB, f"127.0.0.1:{port}", json.dumps(options)]
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self._started.append(subprocess.Popen(command, **pipes, env={"PYTHONPATH": PYTHON_PATH}))
        return self._started[-1]

    def end(self) -> None:
        for one in self._started:
            one.kill()
            one.communicate()


def runs(program: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Return the program once its job runs."""
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline() == b"runs\n", program.stderr.read().decode()
    return program


def refused(program: subprocess.Popen[bytes]) -> str:
    """Return what a program says whose job isn't taken."""
    said = program.communicate()[1].decode()
    assert program.returncode == 1
    return said

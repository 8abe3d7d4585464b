from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from pystate_cli.command_line import run_command_line
from tests.forks import run_module
from tests.ops.jobmanager.harness import PYTHON_PATH, Manager, ManagerThread


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads the settings or the home of whoever runs it."""
    home = tmp_path / "home"
    monkeypatch.setenv("PYSTATE_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("PYSTATE_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def manager(own_home: Path) -> Iterator[Manager]:
    served = ManagerThread(own_home)
    try:
        yield served.start()
    finally:
        served.stop()


@pytest.fixture
def pystate(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command in this process; ids and times in its output are replaced."""

    def run(*words: object) -> Outcome:
        capfd.readouterr()
        code = run_command_line([str(word) for word in words])
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def forked_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that programs are asked about in; commands on a terminal start real ones."""
    forks = SimpleNamespace(run=run_module, DEVNULL=DEVNULL)
    for module in ("programs.program_process", "commands.debug"):
        monkeypatch.setattr(f"pystate_cli.{module}.subprocess", forks)


@pytest.fixture
def running(manager: Manager) -> str:
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    return job


def without_times(text: str) -> str:
    """Replace run times, which differ from run to run."""
    return re.sub(r"\b\d+ ms", "N ms", text)

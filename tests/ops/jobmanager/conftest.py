from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ops.jobmanager.harness import ManagerProcess, ManagerThread
from tests.ops.jobmanager.registration.programs import Programs, Start
from tests.ops.jobmanager.rest.in_process import InProcess


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ManagerThread]:
    served = ManagerThread(tmp_path / "home")
    try:
        yield served.start()
    finally:
        served.stop()


@pytest.fixture
def manager_process(tmp_path: Path) -> Iterator[ManagerProcess]:
    served = ManagerProcess(tmp_path / "home")
    try:
        yield served.start()
    finally:
        served.stop()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[InProcess]:
    application = InProcess(tmp_path / "home")
    yield application
    application.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts a program in a home of its own."""
    programs = Programs(tmp_path)
    yield programs.start
    programs.end()

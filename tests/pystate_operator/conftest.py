from __future__ import annotations

import pytest

from tests.ops.jobmanager.harness import PYTHON_PATH, ManagerThread


@pytest.fixture
def manager(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)  # drivers have the variables of the job manager
    started = ManagerThread(tmp_path / "home").start()
    yield started
    started.stop()

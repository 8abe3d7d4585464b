from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobmanager.harness import ManagerProcess


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ManagerProcess]:
    process = ManagerProcess(tmp_path / "home")
    try:
        yield process.start()
    finally:
        process.stop()

from __future__ import annotations

import pytest

from pystate.core.file_systems import renamed_files
from tests.connectors.file_system.faulty_disk import FaultyDisk


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(renamed_files, "Disk", FaultyDisk)
    FaultyDisk.charge(None)
    yield FaultyDisk
    FaultyDisk.charge(None)

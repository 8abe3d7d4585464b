"""Tables of each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.lakehouse.tables import DeltaTables, IcebergTables

FORMATS = {"delta": DeltaTables, "iceberg": IcebergTables}


@pytest.fixture(params=FORMATS)
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return FORMATS[request.param](tmp_path)

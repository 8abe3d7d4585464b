"""The routes that look into snapshots where the storage hangs, and where values are large."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from pystate.ops.jobmanager.rest import app
from pystate.ops.jobmanager.rest.routes import snapshot_routes
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.waiting import LONGEST_S

SNAPSHOTS = Path(__file__).parents[3] / "fixtures" / "snapshots" / "v0.1.0-format2"
OWNER = {"Authorization": f"Bearer {HOME_TOKEN}"}
INSPECTION = "/pystate/savepoints/inspection?path=file:/lost"


def test_a_hanging_storage_takes_no_threads_of_others_and_ends_its_own_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = threading.Event()
    monkeypatch.setattr(snapshot_routes, "resolve_snapshot", lambda _path: back.wait(LONGEST_S))
    monkeypatch.setattr(app, "_STORAGE_SECONDS", 3.0)
    application = InProcess(tmp_path / "home")

    async def check() -> None:
        connection = ASGITransport(application.app)
        async with AsyncClient(
            transport=connection, base_url="http://127.0.0.1", headers=OWNER, timeout=LONGEST_S
        ) as client:
            hanging = [asyncio.ensure_future(client.get(INSPECTION)) for _ in range(60)]
            await asyncio.sleep(0.5)
            other = await asyncio.wait_for(client.get("/jobmanager/logs"), LONGEST_S)
            assert other.status_code == 200
            answers = await asyncio.wait_for(asyncio.gather(*hanging), LONGEST_S)
            assert {one.status_code for one in answers} == {503}
            assert any("its storage may hang" in one.text for one in answers)

    try:
        asyncio.run(check())
    finally:
        back.set()
        application.close()


def test_a_large_value_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_routes, "_MOST_OF_CELL", 3)
    application = InProcess(tmp_path / "home")
    try:
        query = f"path=file:{SNAPSHOTS / 'canonical-hashmap'}&uid=typed&state=map"
        found: Any = application.get(f"/pystate/savepoints/rows?{query}")
    finally:
        application.close()
    cells = [cell for row in found["rows"] for cell in row]
    assert any(cell.endswith(" characters)") and cell[3] == "…" for cell in cells)

"""The dashboard below a path of an nginx: pages, log-in, live answers, and buttons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ops.jobmanager.harness import ManagerThread
from tests.servers import nginx
from tests.servers.chromium import browser

CONFIGURATION = """
server {{
    listen 127.0.0.1:{port};
    location /streams/pystate/ {{
        proxy_pass http://127.0.0.1:{behind}/;
        proxy_set_header Host localhost;
    }}
}}
"""


@pytest.mark.skipif(nginx.missing() is not None, reason=nginx.missing() or "")
def test_a_path_prefix_changes_nothing(tmp_path: Path) -> None:
    manager = ManagerThread(tmp_path / "home").start()
    port = nginx.free_port()
    folder = tmp_path / "nginx"
    folder.mkdir()
    try:
        job = manager.submit("--name", "below a path")
        manager.wait_for(job, "RUNNING")
        settings = CONFIGURATION.format(port=port, behind=manager.port)
        with browser() as started, nginx.running_nginx(folder, settings, port):
            page = started.new_page(locale="en-GB")
            code = manager.request("POST", "/pystate/login-codes")[1]["code"]
            page.goto(f"http://127.0.0.1:{port}/streams/pystate/#login={code}")
            page.get_by_role("link", name="below a path").click(timeout=60_000)
            expect(page.get_by_text("no connection")).to_have_count(0)
            page.get_by_role("button", name="Cancel", exact=True).click()
            page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
            expect(page.locator(".title .badge")).to_have_text(re.compile("CANCELED"), timeout=60_000)
    finally:
        manager.stop()

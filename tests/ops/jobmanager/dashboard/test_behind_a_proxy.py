"""The dashboard and commands below a path of an nginx, which takes the path off or sends it on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pystate.common.configuration.configuration import Configuration
from tests.ops.jobmanager.harness import PYTHON_PATH, ManagerThread
from tests.servers import nginx
from tests.servers.chromium import browser
from tests.waiting import LONGEST_S

PREFIX = "/streams/pystate"
CONFIGURATION = """
server {{
    listen 127.0.0.1:{port};
    location {prefix}/ {{
        proxy_pass http://127.0.0.1:{after}{sent};
        proxy_set_header Host localhost;
    }}
}}
"""
"""nginx buffers what it passes on, as it does without a word about that: streams tell it not to."""

VIEWS = {
    "Checkpoints": "What they took",
    "State": "A key of the running job",
    "Exceptions": "Exceptions",
    "Log": "Log",
    "Settings": "Submitted",
    "Savepoints": "Savepoints",
    "Job manager": "Drivers",
}
"""Pages, and a heading of each."""


@pytest.mark.skipif(nginx.missing() is not None, reason=nginx.missing() or "")
@pytest.mark.parametrize("is_sent_on", [False, True], ids=["taken off", "sent on"])
def test_a_path_prefix_changes_nothing(tmp_path: Path, is_sent_on: bool) -> None:
    settings = {"pystate.rest.url-prefix": f"{PREFIX}/"} if is_sent_on else {}
    manager = ManagerThread(tmp_path / "home").start(Configuration(settings))
    port = nginx.free_port()
    folder = tmp_path / "nginx"
    folder.mkdir()
    try:
        job = manager.submit("--name", "below a path")
        manager.wait_for(job, "RUNNING")
        sent = "" if is_sent_on else "/"
        served = CONFIGURATION.format(port=port, after=manager.port, prefix=PREFIX, sent=sent)
        with browser() as started, nginx.running_nginx(folder, served, port):
            page = started.new_page(locale="en-GB")
            code = manager.request("POST", "/pystate/login-codes")[1]["code"]
            page.goto(f"http://127.0.0.1:{port}{PREFIX}/#login={code}")
            page.get_by_role("link", name="below a path").click(timeout=60_000)
            (cookie,) = page.context.cookies()
            assert cookie["path"] == (f"{PREFIX}/" if is_sent_on else "/")
            served_below: set[str] = set()
            page.on("response", lambda answer: served_below.add(f"{answer.status} {answer.url}"))
            for view, shown in VIEWS.items():
                page.get_by_role("link", name=view, exact=True).click()
                assert page.url.startswith(f"http://127.0.0.1:{port}{PREFIX}/#/")
                expect(page.get_by_role("heading", name=shown).first).to_be_visible(timeout=60_000)
                if view == "Job manager":
                    page.get_by_role("link", name="Jobs", exact=True).click()
                    page.get_by_role("link", name="below a path").click()
            expect(page.get_by_role("heading", name="Job graph")).to_be_visible(timeout=60_000)
            expect(page.get_by_text("no connection")).to_have_count(0)
            assert any("/pystate/watch?" in one for one in served_below)
            assert [one for one in served_below if f":{port}{PREFIX}/" not in one or one.startswith("5")] == []
            page.get_by_role("button", name="Cancel", exact=True).click()
            page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
            expect(page.locator(".title .badge")).to_have_text(re.compile("CANCELED"), timeout=60_000)
            page.get_by_role("button", name="Log out").click()
            expect(page.get_by_role("link", name="Log in").first).to_be_visible()
            assert page.context.cookies() == []
            # whether nginx sends the path on is nothing to who calls it
            listed = list_jobs(tmp_path / "caller", port)
            assert (listed.returncode, job in listed.stdout) == (0, True), listed.stderr
    finally:
        manager.stop()


def list_jobs(folder: Path, port: int) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    (folder / "flink-conf.toml").write_text(f'"pystate.rest.url-prefix" = "{PREFIX}"\n')
    environment = {
        **os.environ,
        "PYTHONPATH": PYTHON_PATH,
        "PYSTATE_HOME": str(folder / "home"),
        "PYSTATE_CONF_DIR": str(folder),
    }
    command = [sys.executable, "-m", "pystate_cli", "list", "-a", "-m", f"127.0.0.1:{port}"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=LONGEST_S)

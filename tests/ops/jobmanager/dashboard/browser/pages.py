"""Pages of the dashboard in a real browser, over a job manager with fake drivers."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.ops.jobmanager.harness import ManagerThread
from tests.waiting import LONGEST_S

SNAPSHOTS = Path(__file__).parents[4] / "fixtures" / "snapshots" / "v0.1.0-format2"
TIMEOUT_MS = 1000 * LONGEST_S
VIEWS = ("", "/checkpoints", "/state", "/exceptions", "/log", "/settings")
HARMLESS = re.compile(r"Failed to load resource: the server responded with a status of (401|404|503)")

expect.set_options(timeout=TIMEOUT_MS)


def all_pages(job: str, failed: str, barriers: str) -> list[str]:
    return [
        "/",
        "/savepoints",
        "/cluster",
        "/login",
        f"/jobs/{failed}/exceptions",
        f"/jobs/{barriers}",
        *(f"/jobs/{job}{view}" for view in VIEWS),
    ]


class Pages:
    """A logged-in page, and what its console said."""

    def __init__(self, context: BrowserContext, manager: ManagerThread) -> None:
        self.root = f"http://127.0.0.1:{manager.port}/"
        self.page: Page = context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.said: list[str] = []
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("console", lambda told: self.said.append(told.text) if told.type == "error" else None)
        code = manager.request("POST", "/pystate/login-codes")[1]["code"]
        self.page.goto(f"{self.root}#login={code}")
        expect(self.page.get_by_role("button", name=re.compile("Log out|退出登录"))).to_be_visible()

    def go(self, hash_: str) -> Page:
        self.page.goto(f"{self.root}#{hash_}")
        return self.page

    def check_console(self) -> None:
        said = [line for line in self.said if not HARMLESS.match(line)]
        assert said == [], said

"""The savepoints in a browser: what is in them, and jobs that are started from them."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.ops.jobmanager.dashboard.browser.pages import SNAPSHOTS, Pages
from tests.ops.jobmanager.harness import ManagerThread


def test_a_savepoint_is_looked_into_verified_and_compared(pages: Pages, manager: ManagerThread) -> None:
    page = pages.go("/savepoints")
    versions = page.locator("button.version")
    expect(versions.first).to_be_visible()
    expect(versions.filter(has_text="canonical-hashmap").first).to_be_visible()  # it is older than ids of snapshots
    versions.first.click()
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text(re.compile("It is sound|can't be relied on"))).to_be_visible()
    expect(page.locator("code").filter(has_text="pystate savepoints verify file:")).to_be_visible()
    expect(page.locator("code").filter(has_text="pystate savepoints inspect file:")).to_be_visible()
    page.get_by_label("Compare with").select_option(index=1)
    expect(page.get_by_role("columnheader", name="Entries before")).to_be_visible()


def test_the_heaviest_keys_of_a_key_group_are_found_by_the_page_alone(pages: Pages) -> None:
    page = pages.go(f"/savepoints?path=file:{SNAPSHOTS / 'canonical-hashmap'}")
    page.get_by_role("row", name="All kinds of typed typed map").click()
    expect(page.get_by_text("Heaviest key groups:")).to_be_visible()
    page.locator("p", has_text="Heaviest key groups:").get_by_role("button").first.click()
    expect(page.get_by_role("heading", name=re.compile("The largest of"))).to_be_visible()
    expect(page.get_by_role("heading", name="Rows of map")).to_be_visible()


def test_a_job_is_started_from_a_version_by_the_page_alone(pages: Pages, manager: ManagerThread, job: str) -> None:
    path = SNAPSHOTS / "canonical-hashmap"
    page = pages.go(f"/savepoints?path=file:{path}")
    page.get_by_role("button", name="Start a job from here").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Program and settings of").select_option(job)
    expect(dialog).to_contain_text("word count runs, and goes on.")
    dialog.get_by_role("textbox", name="Name").fill("yesterday's")
    dialog.get_by_label("Parallelism").fill("1")
    expect(dialog).to_contain_text(f"pystate run -d -s file:{path} -p 1 --name 'yesterday'\\''s' {manager.job_file}")
    dialog.get_by_role("button", name="Start it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("yesterday's")
    forked = page.url.rpartition("/")[2]
    assert manager.request("GET", f"/pystate/jobs/{forked}/submission")[1]["savepoint_path"] == f"file:{path}"
    manager.request("PATCH", f"/jobs/{forked}")


def test_a_job_that_can_not_be_put_back_goes_on_and_the_page_says_why(
    pages: Pages, manager: ManagerThread, tmp_path: Path
) -> None:
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
    job = manager.submit("--name", "to put back", "--most", "2", configuration=settings)
    manager.wait_for(job, "RUNNING")
    path = SNAPSHOTS / "canonical-hashmap"
    page = pages.go(f"/savepoints?path=file:{path}")
    page.get_by_role("button", name="Start a job from here").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Program and settings of").select_option(job)
    dialog.get_by_label("in place of to put back, which runs").check()
    dialog.get_by_label("Parallelism").fill("3")
    expect(dialog).to_contain_text("to put back is stopped with a savepoint")
    expect(dialog).to_contain_text(re.compile(f"pystate stop {job} && .*pystate run -d -s file:{path} -p 3"))
    dialog.get_by_role("button", name="Put it back").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The job was NOT put back.")
    expect(dialog.get_by_role("log")).to_contain_text("The savepoint does not fit.")
    dialog.get_by_role("link", name="To the job that runs now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("to put back")
    former = page.url.rpartition("/")[2]
    assert former != job
    manager.request("PATCH", f"/jobs/{former}")

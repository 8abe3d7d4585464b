"""A job's exceptions in a browser: the place in the user's code, and the record that was kept."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from pystate.common.files.home import read_json, write_file_atomically
from pystate.runtime.job_folder.failing_record import keep_failing_record
from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread, eventually
from tests.ops.jobmanager.rest.test_kept_records import record


def test_an_exception_names_the_place_in_the_users_code(pages: Pages, failed: str) -> None:
    page = pages.go(f"/jobs/{failed}/exceptions")
    expect(page.get_by_text("ZeroDivisionError").first).to_be_visible()
    expect(page.get_by_text("/jobs/count.py").first).to_be_visible()
    expect(page.get_by_text("No record is kept.")).to_be_visible()


def test_the_job_of_a_failure_says_what_it_was_and_leads_to_it(pages: Pages, failed: str) -> None:
    page = pages.go(f"/jobs/{failed}")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("count (uid count), subtask 1")
    told.get_by_role("link", name="Where it failed, and at which record").click()
    expect(page.get_by_text("ZeroDivisionError").first).to_be_visible()


def test_of_a_job_that_runs_again_its_last_failure_is_no_alarm(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--restart", "5", "10", "--die", "0", "-9", "--die-until", "1", "--name", "runs again")
    eventually(lambda: manager.request("GET", f"/jobs/{job}")[1]["pystate"]["attempt"] == 1)
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    told = page.get_by_role("note").filter(has_text="it runs again since")
    expect(told).to_contain_text("Where it failed, and at which record")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_an_exception_shows_the_kept_record_and_what_replays_it(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--fail-user", "0", "--name", "keeps its record")
    manager.wait_for(job, "FAILED")
    path = keep_failing_record(manager.home.job(job).path, record(0), 10)
    page = pages.go(f"/jobs/{job}/exceptions")
    kept = page.get_by_role("note").filter(has_text="The record at which it failed is kept.")
    expect(kept).to_contain_text("Subtask 1 of Shares took it.")
    expect(kept).to_contain_text(f"pystate debug {job} 1")
    expect(kept).to_contain_text(str(path))


def test_a_long_message_leaves_room_for_the_page(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--fail-user", "0", "--name", "says much")
    manager.wait_for(job, "FAILED")
    status = read_json(manager.home.job(job).status)
    status["failure"]["message"] = "E" * 20_000
    write_file_atomically(manager.home.job(job).status, json.dumps(status).encode())

    told = pages.go(f"/jobs/{job}").get_by_role("alert")

    expect(told).to_contain_text("EEE")
    assert told.evaluate("(one) => one.clientHeight") < 500
    expect(pages.page.get_by_role("navigation", name="Views of the job")).to_be_in_viewport()


def test_of_a_job_that_does_not_run_no_key_can_be_asked_for(pages: Pages, failed: str) -> None:
    page = pages.go(f"/jobs/{failed}/state")
    expect(page.get_by_text("The job does not run: there is nobody to ask for a key.")).to_be_visible()

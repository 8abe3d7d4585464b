"""A job's checkpoints in a browser: down to subtasks, failed ones, many, and with a driver that hangs."""

from __future__ import annotations

import os
import re
import signal

from playwright.sync_api import expect

from pystate.common.files.home import read_json
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread, eventually
from tests.runtime.checkpoint.stats.statistics import Statistics


def test_of_a_failed_checkpoint_the_subtasks_that_did_not_acknowledge_are_shown(
    pages: Pages, manager: ManagerThread
) -> None:
    job = manager.submit("--name", "late")
    manager.wait_for(job, "RUNNING")
    statistics = Statistics().run(3).trigger(4).acknowledge(4, "count", 0)
    statistics.fail(4, CheckpointFailureReason.CHECKPOINT_EXPIRED).write(manager.home.job(job).checkpoints)
    page = pages.go(f"/jobs/{job}/checkpoints")
    page.get_by_role("button", name="Show what was missing").click()
    details = page.locator("section").filter(has=page.get_by_role("heading", name="Checkpoint 4"))
    expect(details.get_by_text("not acknowledged").first).to_be_visible()
    expect(page.get_by_role("heading", name="All that are completed")).to_be_visible()
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("alert").first).to_contain_text("检查点在完成前已超时")
    expect(page.get_by_role("alert").first.locator("[lang=en]")).to_contain_text("expired before it was complete")
    page.get_by_role("button", name="English").click()


def test_without_a_completed_checkpoint_there_is_no_duration(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--name", "young")
    manager.wait_for(job, "RUNNING")
    Statistics().trigger(1).write(manager.home.job(job).checkpoints)
    page = pages.go(f"/jobs/{job}/checkpoints")
    expect(page.get_by_text("None is completed yet.").first).to_be_visible()
    expect(page.locator("dl.facts div").filter(has_text="Duration").locator("dd").first).to_have_text("–")


def test_checkpoints_are_shown_down_to_their_subtasks(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}/checkpoints")
    page.get_by_role("button", name="5", exact=True).click()
    details = page.locator("section").filter(has=page.get_by_role("heading", name="Checkpoint 5"))
    details.get_by_role("button", expanded=False).first.click()
    expect(details.get_by_role("heading", name=re.compile("Subtasks of"))).to_be_visible()
    expect(details.get_by_role("columnheader", name="Alignment")).to_be_visible()


def test_checkpoints_show_what_flinks_page_shows_of_all_and_of_all_subtasks_of_one(pages: Pages, barriers: str) -> None:
    page = pages.go(f"/jobs/{barriers}/checkpoints")
    spread = page.locator("section").filter(has=page.get_by_role("heading", name="All that are completed"))
    names = ["least", "mean", "median", "90 %", "95 %", "99 %", "99.9 %", "most"]
    expect(spread.locator("tbody td:first-child")).to_have_text(names)
    expect(spread.locator("tbody tr").last).not_to_contain_text("NaN")
    expect(page.get_by_role("columnheader", name="In flight (persisted)")).to_be_visible()
    page.get_by_role("button", name="2", exact=True).click()
    details = page.locator("section").filter(has=page.get_by_role("heading", name="Checkpoint 2"))
    details.locator("tr").filter(has_text="count").get_by_role("button").click()
    feet = details.locator("tfoot tr")
    expect(feet).to_have_count(3)  # over the subtasks that took 60 and 90 ms
    took = [cells[2] for cells in (foot.locator("th, td").all_inner_texts() for foot in feet.all())]
    assert took == ["60 ms", "75 ms", "90 ms"]
    heads = details.locator("table").last.locator("thead th").count()
    assert feet.first.locator("th, td").count() == heads


def test_subtasks_are_put_in_order_by_the_head_of_a_column(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}/checkpoints")
    page.get_by_role("button", name="5", exact=True).click()
    details = page.locator("section").filter(has=page.get_by_role("heading", name="Checkpoint 5"))
    details.get_by_role("button", expanded=False).first.click()
    head = details.get_by_role("columnheader", name="Subtask")
    numbers = details.locator("table").last.locator("tbody td:first-child")
    expect(head).to_be_visible()
    as_they_are = numbers.all_inner_texts()
    for order, shown in (("descending", as_they_are[::-1]), ("ascending", as_they_are), ("none", as_they_are)):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", order)
        assert numbers.all_inner_texts() == shown


def test_how_checkpoints_are_taken_and_of_which_kind_one_is(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}/checkpoints")
    settings = page.locator("section").filter(has=page.get_by_role("heading", name="How they are taken"))
    expect(settings).to_contain_text("exactly-once")
    page.get_by_role("button", name="5", exact=True).click()
    details = page.locator("section").filter(has=page.get_by_role("heading", name="Checkpoint 5"))
    expect(details.get_by_text("aligned checkpoint")).to_be_visible()
    settings.get_by_role("link").click()
    expect(page.get_by_role("link", name="Settings")).to_have_attribute("aria-current", "page")


def test_earlier_checkpoints_are_shown_a_page_at_a_time(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--finish", "0", "--name", "many checkpoints")
    manager.wait_for(job, "FINISHED")
    eventually(lambda: not manager.request("GET", f"/pystate/jobs/{job}")[1]["driver_running"])
    Statistics(250).run(*range(1, 251)).write(manager.home.job(job).checkpoints)
    page = pages.go(f"/jobs/{job}/checkpoints")
    history = page.locator("section").filter(has=page.get_by_role("heading", name="History")).locator("tbody tr")
    earlier = page.get_by_role("button", name="Show earlier ones")

    for shown in (100, 200, 250):
        expect(history).to_have_count(shown)
        expect(history.first).to_contain_text("250")
        expect(history.last).to_contain_text(str(251 - shown))
        expect(earlier).to_have_count(0 if shown == 250 else 1)
        if shown < 250:
            earlier.click()
    history.last.get_by_role("button").click()
    expect(page.get_by_role("heading", name="Checkpoint 1", exact=True)).to_be_visible()


def test_a_driver_that_hangs_leaves_the_rest_of_the_page(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--epochs", "200", "--name", "it hangs")
    manager.wait_for(job, "RUNNING")
    pid = read_json(manager.home.job(job).driver)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        page = pages.go(f"/jobs/{job}/checkpoints")
        expect(page.get_by_role("heading", name="it hangs")).to_be_visible()
        expect(page.get_by_text("One moment …")).to_be_visible()
    finally:
        os.kill(pid, signal.SIGCONT)
    expect(page.get_by_role("heading", name="History")).to_be_visible()

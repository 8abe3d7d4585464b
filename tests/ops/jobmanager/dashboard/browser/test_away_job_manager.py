"""A job manager that is away, or dies, under an open page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerProcess, ManagerThread


def test_the_page_says_when_the_job_manager_is_gone_and_goes_on_when_it_is_back(browser: Browser, tmp_path: Path) -> None:
    manager = ManagerThread(tmp_path / "home").start()
    context = browser.new_context(locale="en-GB")
    try:
        port = manager.port
        pages = Pages(context, manager)
        page = pages.go("/")
        expect(page.get_by_text("No job is running.")).to_be_visible()
        manager.stop()
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        manager.start(port=port)
        job = manager.submit("--name", "after the break")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_text("after the break")).to_be_visible()
        expect(page.get_by_text("You are not logged in any more.")).to_be_visible()
        assert job[:8] in page.content()
    finally:
        context.close()
        manager.stop()


def test_a_confirmation_without_an_answer_says_so_and_can_be_given_again(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--name", "asked for twice")
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    cancel = re.compile(f"{job}.mode=cancel")
    page.route(cancel, lambda route: route.abort("connectionreset"))
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The job manager does not answer.")
    expect(dialog.get_by_role("alert")).to_contain_text("It may have been done all the same")
    page.unroute(cancel)
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".title .badge")).to_have_text("CANCELED")
    pages.said = [line for line in pages.said if "ERR_CONNECTION_RESET" not in line]


@pytest.mark.slow
def test_a_job_managers_sudden_death_is_told_and_its_successor_shows_the_same_job(browser: Browser, tmp_path: Path) -> None:
    manager = ManagerProcess(tmp_path / "home").start()
    context = browser.new_context(locale="en-GB")
    try:
        port = manager.port
        job = manager.submit("--epochs", "200", "--name", "outlives it")
        manager.wait_for(job, "RUNNING")
        pages = Pages(context, manager)
        page = pages.go(f"/jobs/{job}")
        expect(page.get_by_role("heading", name="Job graph")).to_be_visible()
        manager.kill()
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        expect(page.get_by_role("heading", name="outlives it")).to_be_visible()
        manager.start(port)
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_text("You are not logged in any more.")).to_be_visible()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        expect(page.locator(".title .badge")).to_have_text("CANCELED")
    finally:
        context.close()
        manager.stop()


@pytest.mark.slow
def test_a_rescale_goes_on_under_the_open_page_when_the_job_manager_dies(browser: Browser, tmp_path: Path) -> None:
    manager = ManagerProcess(tmp_path / "home").start()
    context = browser.new_context(locale="en-GB")
    try:
        port, gate = manager.port, tmp_path / "gate"
        gate.touch()
        settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
        job = manager.submit("--init-until", str(gate), "--name", "over a death", configuration=settings)
        manager.wait_for(job, "RUNNING")
        gate.unlink()
        page = Pages(context, manager).go(f"/jobs/{job}")
        page.get_by_role("button", name="Rescale", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Parallelism").fill("3")
        dialog.get_by_role("button", name="Rescale it").click()
        expect(dialog).to_contain_text("Job has been submitted")
        manager.kill()
        manager.start(port)
        expect(dialog).to_contain_text("the next one goes on")
        gate.touch()
        expect(page).not_to_have_url(re.compile(job))
        expect(page.get_by_role("heading", level=1)).to_have_text("over a death")
        page.goto(f"http://127.0.0.1:{port}/#/jobs/{job}")
        told = page.get_by_role("note").filter(has_text="It goes on with parallelism 3 under another id.")
        expect(told).to_contain_text("A job manager died meanwhile; the next one went on.")
        told.get_by_role("link", name="To the job that runs now").click()
        expect(page).not_to_have_url(re.compile(job))
    finally:
        context.close()
        manager.stop()

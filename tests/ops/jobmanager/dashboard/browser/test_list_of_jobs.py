"""The list of jobs in a browser: what needs somebody, ages, and names that are text."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread


def test_the_list_shows_jobs_and_what_needs_somebody(pages: Pages, job: str, failed: str) -> None:
    page = pages.go("/")
    row = page.get_by_role("row").filter(has_text=job[:8])
    expect(row).to_contain_text("word count")
    expect(row).to_contain_text("RUNNING")
    needs = page.get_by_role("region", name="What needs you")
    expect(needs).to_contain_text("shares")
    expect(needs).to_contain_text(f"pystate exceptions {failed}")
    row.click()
    expect(page.get_by_role("heading", name="word count")).to_be_visible()


def test_the_keyboard_alone_reaches_a_job(pages: Pages, job: str) -> None:
    page = pages.go("/")
    link = page.get_by_role("link", name="word count")
    expect(link).to_be_visible()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == f"#/jobs/{job}":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="word count")).to_be_visible()


def test_a_name_is_text_that_can_not_turn_around_what_is_beside_it(pages: Pages, manager: ManagerThread) -> None:
    name = "<img src=x onerror=alert(1)>\u202e{name}"
    job = manager.submit("--fail-user", "0", "--name", name)
    manager.wait_for(job, "FAILED")
    page = pages.go("/")
    needs = page.get_by_role("region", name="What needs you")
    expect(needs).to_contain_text(f"<img src=x onerror=alert(1)>\ufffd{{name}} ({job[:8]}) has failed")
    expect(pages.go(f"/jobs/{job}").get_by_role("heading", level=1)).to_have_text("<img src=x onerror=alert(1)>\ufffd{name}")


def test_a_name_of_hundreds_of_characters_takes_three_lines_and_is_read_whole_all_the_same(
    pages: Pages, manager: ManagerThread
) -> None:
    name = "\U0001f600" + "L" * 300
    job = manager.submit("--name", name, "--finish", "0")
    manager.wait_for(job, "FINISHED")
    for hash_, place in (("/", "td a.name"), (f"/jobs/{job}", "h1")):
        told = pages.go(hash_).locator(place).filter(has_text="L" * 300)
        expect(told).to_have_attribute("title", name)
        lines = told.evaluate("(one) => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)")
        assert round(lines) <= 3


def test_a_job_whose_name_shows_nothing_is_found_by_its_id(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--name", "\u200b \u2060", "--finish", "0")
    manager.wait_for(job, "FINISHED")
    pages.go("/").get_by_role("link", name=job[:8], exact=True).click()
    expect(pages.page.get_by_role("heading", level=1)).to_have_text(job[:8])


def test_ages_are_those_of_the_job_managers_clock(browser: Browser, manager: ManagerThread, job: str) -> None:
    context = browser.new_context(locale="en-GB")
    context.add_init_script("const real = Date.now.bind(Date); Date.now = () => real() - 600_000;")
    pages = Pages(context, manager)
    row = pages.go("/").get_by_role("row").filter(has_text=job[:8])
    expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(r"\d+ (s|min|ms)"))
    pages.check_console()
    context.close()

"""Logging in and out in a browser: tokens, codes, two browsers, and stolen cookies."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread


def test_a_wrong_token_is_told(browser: Browser, manager: ManagerThread) -> None:
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{manager.port}/#/login")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the token")
    page.get_by_label("Token").fill(manager.home.token.read_text().strip())
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    context.close()


def test_a_log_in_comes_back_to_the_page_that_asked_for_it(browser: Browser, manager: ManagerThread, job: str) -> None:
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{manager.port}/#/jobs/{job}/state")
    page.get_by_role("main").get_by_role("link", name="Log in").click()
    page.get_by_label("Token").fill(manager.home.token.read_text().strip())
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name=re.compile("A key of"))).to_be_visible()
    assert page.url.endswith(f"#/jobs/{job}/state")
    context.close()


def test_a_code_logs_in_a_page_that_is_open(browser: Browser, manager: ManagerThread) -> None:
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    root = f"http://127.0.0.1:{manager.port}/"
    page.goto(root)
    second = context.new_page()
    second.goto(root)
    expect(page.get_by_role("link", name="Log in").first).to_be_visible()
    page.goto(f"{root}#login={manager.request('POST', '/pystate/login-codes')[1]['code']}")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    assert "login=" not in page.url
    expect(second.get_by_role("button", name="Log out")).to_be_visible()  # another tab of the same browser
    second.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are not logged in any more.")).to_be_visible()
    expect(second.get_by_text("You are not logged in any more.")).to_have_count(0)
    context.close()


def test_two_browsers_see_the_same_and_one_log_out_ends_one_session(
    browser: Browser, pages: Pages, manager: ManagerThread, job: str
) -> None:
    other = browser.new_context(locale="en-GB")
    second = Pages(other, manager)
    for one in (pages, second):
        expect(one.go(f"/jobs/{job}/state").get_by_role("heading", name=re.compile("A key of"))).to_be_visible()
    second.page.get_by_role("button", name="Log out").click()
    expect(second.page.get_by_role("link", name="Log in").first).to_be_visible()
    expect(pages.page.get_by_role("button", name="Log out")).to_be_visible()
    other.close()


KEPT = "Object.entries(localStorage)"
KEEP = "(all) => all.forEach(([name, value]) => localStorage.setItem(name, value))"


def test_a_stolen_cookie_shows_nothing_and_a_stolen_session_ends_with_the_log_out(
    browser: Browser, manager: ManagerThread, job: str
) -> None:
    own = browser.new_context(locale="en-GB")
    pages = Pages(own, manager)
    thief = browser.new_context(locale="en-GB")
    cookies: Any = pages.page.context.cookies()
    thief.add_cookies(cookies)
    page = thief.new_page()
    page.goto(f"{pages.root}#/jobs/{job}/log")
    expect(page.get_by_role("link", name="Log in").first).to_be_visible()
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)

    page.evaluate(KEEP, pages.page.evaluate(KEPT))  # somebody who has the browser's storage, too
    page.reload()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    pages.page.get_by_role("button", name="Log out").click()
    expect(pages.page.get_by_role("link", name="Log in").first).to_be_visible()
    expect(page.get_by_text("You are not logged in any more.")).to_be_visible()
    thief.close()
    own.close()


FORBIDDEN = """
const refuse = () => { throw new DOMException("denied", "SecurityError"); };
Object.defineProperty(window, "localStorage", { get: refuse });
"""
DAMAGED = """for (const name of ["language", "theme"]) localStorage.setItem(`pystate-${name}`, "constructor");"""


@pytest.mark.parametrize("kept", [FORBIDDEN, DAMAGED], ids=["forbidden", "damaged"])
def test_a_browser_may_keep_nothing_or_what_nobody_knows(
    browser: Browser, manager: ManagerThread, job: str, kept: str
) -> None:
    context = browser.new_context(locale="en-GB", color_scheme="dark")
    context.add_init_script(kept)
    pages = Pages(context, manager)
    expect(pages.go(f"/jobs/{job}/state").get_by_role("heading", name=re.compile("A key of"))).to_be_visible()
    expect(pages.page.locator("html")).to_have_attribute("data-theme", "dark")
    pages.go("/")
    pages.page.get_by_role("button", name="中文").click()
    expect(pages.page.get_by_role("button", name="退出登录")).to_be_visible()
    pages.check_console()
    context.close()

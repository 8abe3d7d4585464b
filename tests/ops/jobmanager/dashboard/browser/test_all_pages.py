"""All pages in a browser: sizes, themes, languages, screen readers; and commands that are copied."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import pytest
import typer
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from typer.main import get_command

from pystate_cli.command_line import application
from tests.ops.jobmanager.dashboard.browser.pages import Pages, all_pages
from tests.ops.jobmanager.harness import ManagerThread

WIDEST = """[...document.querySelectorAll("main *, header *")].filter((one) => !one.closest(".scroll, .graph, code, pre"))
  .filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML.slice(0, 90)).join("\\n")"""
"""What is wider than the screen, beside what scrolls on its own."""


@pytest.mark.parametrize(
    ("width", "scheme", "locale"), [(320, "light", "zh-CN"), (320, "dark", "en-GB"), (2560, "dark", "zh-CN")]
)
def test_no_page_is_wider_than_the_screen(
    browser: Browser, manager: ManagerThread, job: str, failed: str, barriers: str, width: int, scheme: Any, locale: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, locale=locale)
    pages = Pages(context, manager)
    for hash_ in all_pages(job, failed, barriers):
        page = pages.go(hash_)
        expect(page.get_by_role("heading").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.evaluate(WIDEST)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.lang") == ("zh-CN" if locale == "zh-CN" else "en")
    pages.check_console()
    context.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_nothing_serious_is_in_the_way_of_a_screen_reader(
    browser: Browser, manager: ManagerThread, job: str, failed: str, barriers: str, scheme: Any
) -> None:
    size: Any = {"width": 1300, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB", bypass_csp=True)  # axe is injected
    pages = Pages(context, manager)
    found: list[str] = []
    for hash_ in all_pages(job, failed, barriers):
        page = pages.go(hash_)
        expect(page.get_by_role("heading").first).to_be_visible()
        for one in Axe().run(page).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                found += [f"{hash_} {one['id']}: {node['html'][:120]}" for node in one["nodes"]]
    assert found == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_nothing_serious_is_in_the_way_where_something_is_asked_or_opened(
    browser: Browser, manager: ManagerThread, job: str, scheme: Any
) -> None:
    context = browser.new_context(color_scheme=scheme, locale="zh-CN", bypass_csp=True)
    pages = Pages(context, manager)
    page = pages.go(f"/jobs/{job}")
    page.locator(".node").first.click()
    page.get_by_text("全部指标").click()
    opened = [None, "保存点", "调整并行度", "取消"]
    for name in opened:
        if name:
            page.locator(".title .actions").get_by_role("button", name=name, exact=True).click()
            expect(page.get_by_role("dialog")).to_be_visible()
        found = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"][:120]) for one in found] == []
        if name:
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    context.close()


def test_what_the_job_manager_says_is_marked_as_english_on_a_chinese_page_with_its_kind_in_chinese(
    browser: Browser, manager: ManagerThread, failed: str, job: str
) -> None:
    context = browser.new_context(locale="zh-CN")
    pages = Pages(context, manager)
    page = pages.go(f"/jobs/{failed}")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("用户函数抛出异常")
    expect(told.locator("[lang=en]")).to_have_text(re.compile("ZeroDivisionError"))
    page.get_by_role("button", name="English").click()
    expect(told).not_to_contain_text("用户函数抛出异常")
    expect(told.locator("[lang=en]")).to_have_count(0)
    context.close()


def test_the_job_managers_log_is_shown_when_somebody_asks_for_it(pages: Pages) -> None:
    page = pages.go("/cluster")
    page.route("**/jobmanager/log", lambda route: route.fulfill(body="a line of the job manager\n"))
    page.get_by_role("button", name="Show the log").click()
    expect(page.locator("pre.log")).to_have_text("a line of the job manager\n")
    page.unroute("**/jobmanager/log")


def test_without_scripts_the_page_says_what_to_do_in_its_place(browser: Browser, manager: ManagerThread) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{manager.port}/")
    expect(page.locator("body")).to_contain_text("pystate list", use_inner_text=True)
    context.close()


QUOTED = "(words) => import(new URL('ui/app/format.js', location.href)).then(({ quoted }) => words.map(quoted))"
HOSTILE = [
    "a'b; touch /tmp/x",
    "$(reboot)`reboot`",
    "=ls",
    "~",
    "a!b",
    "",
    "two\nlines\r\x1b[201~\x03\n'reboot\\",
    "\u202egnirts\u2066 \u200b\x85",
    "\u4e2d\u6587 \U0001f600",
]


OUTSIDE = """[...document.querySelectorAll(".stack td")].filter((one) => one.getBoundingClientRect().right > innerWidth)
  .map((one) => one.textContent)"""


def test_on_a_phone_jobs_and_settings_are_read_without_scrolling_sideways(
    browser: Browser, manager: ManagerThread, job: str
) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 700}, locale="zh-CN")
    pages = Pages(context, manager)
    row = pages.go("/").get_by_role("row").filter(has_text=job[:8])
    expect(row).to_contain_text(re.compile("\\d (毫秒|秒|分|小时)"))
    assert pages.page.evaluate(OUTSIDE) == []
    expect(pages.go(f"/jobs/{job}/settings").get_by_text("parallelism.default")).to_be_visible()
    assert pages.page.evaluate(OUTSIDE) == []
    pages.check_console()
    context.close()


def test_a_command_that_is_copied_has_hostile_names_as_words(pages: Pages) -> None:
    told: Any = pages.page.evaluate(QUOTED, HOSTILE)
    for word, text in zip(HOSTILE, told, strict=True):
        assert not re.search("[\\x00-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2066-\\u2069]", text), text
        shell = ["bash", "-c", f"printf %s {text}"]
        printed = subprocess.run(shell, capture_output=True, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}, check=True)
        assert printed.stdout.decode() == word


COMMANDS = """(calls) => import(new URL('ui/app/format.js', location.href))
  .then(({ commandLine }) => calls.map(([words, given, options]) => commandLine(words, given, options)))"""


def test_a_word_of_others_is_never_an_option_of_a_command_that_is_copied(pages: Pages, job: str) -> None:
    keys = ["a", "-k", "--consistency=snapshot", "-", "--", "-o'; reboot"]
    options = {"--consistency": "live", "--none": None}
    parsers: Any = get_command(application(("query",)))
    calls = [["pystate query", [job, "-state", key], options] for key in keys]
    told: Any = pages.page.evaluate(COMMANDS, [*calls, ["pystate query", [job, "state", "a"], options]])

    for key, text in zip(keys, told, strict=False):
        words = shlex.split(text)
        assert words[:2] == ["pystate", "query"]
        with parsers.get_command(typer.Context(parsers), "query").make_context("query", words[2:]) as context:
            assert [context.params[name] for name in ("job", "state", "key", "consistency")] == [job, "-state", key, "live"]
    assert told[-1] == f"pystate query {job} state a --consistency live"


THEMES = """() => {
  window.themes = [];
  const note = () => window.themes.push(document.documentElement.dataset.theme);
  for (const moment of ["beforeprint", "afterprint"]) window.addEventListener(moment, note);
}"""


def test_paper_is_light_and_shows_no_buttons(browser: Browser, manager: ManagerThread, job: str) -> None:
    context = browser.new_context(color_scheme="dark", locale="en-GB")
    page = Pages(context, manager).go(f"/jobs/{job}")
    actions = page.locator(".title .actions")
    expect(actions).to_be_visible()
    page.evaluate(THEMES)
    page.pdf()
    assert page.evaluate("window.themes") == ["light", "dark"]
    page.emulate_media(media="print")
    expect(actions).to_be_hidden()
    context.close()


def test_times_on_an_axis_differ_however_little_has_passed(pages: Pages) -> None:
    drawn = """() => import(new URL('ui/app/plots.js', location.href)).then(async ({ Plot }) => {
      const { html, render } = await import(new URL('ui/app/preact.js', location.href));
      const place = document.createElement("div");
      place.style.width = "900px";
      document.body.append(place);
      let seen = null;
      const Real = window.uPlot;
      window.uPlot = class extends Real { constructor(options, ...rest) { super(options, ...rest); seen = options; } };
      window.uPlot.paths = Real.paths;
      render(html`<${Plot} label="few" data=${[[100, 100.2], [1, 2]]} series=${[{ label: "a", color: "--c1" }]} />`, place);
      await new Promise((done) => setTimeout(done, 200));
      window.uPlot = Real;
      render(null, place);
      place.remove();
      return Math.min(...seen.axes[0].incrs);
    })"""
    assert pages.page.evaluate(drawn) == 1, "seconds, as they are all that a tick says"

"""Plots of metrics that somebody picks on a job's page."""

from __future__ import annotations

import re
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread


def plot_of(page: Page, title: str) -> Any:
    return page.locator("section").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_a_metric_is_picked_by_the_keyboard_and_stays_picked_after_a_reload(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}")
    form = page.locator("form").filter(has=page.locator("select[name=metric]"))
    task = form.locator("select[name=task]")
    expect(task).not_to_have_value("")
    name = task.evaluate("(of) => of.selectedOptions[0].text")
    form.locator("select[name=metric]").select_option(label="numRecordsInPerSecond")
    button = form.get_by_role("button", name="Plot it")
    button.focus()
    page.keyboard.press("Enter")
    plot = plot_of(page, f"{name}: numRecordsInPerSecond")
    expect(plot.locator("canvas")).to_be_visible()
    expect(plot.locator("p")).to_have_text(re.compile(r"^records/s: Subtask 0 \d.* · Subtask 1 \d"))
    expect(button).to_be_disabled()

    plot.get_by_label("Subtasks").fill("1")
    expect(plot.locator("p")).to_have_text(re.compile(r"^records/s: Subtask 1 [\d.]+/s$"))
    page.reload()
    expect(plot.locator("p")).to_have_text(re.compile(r"^records/s: Subtask 1 [\d.]+/s$"))
    for wrong in ("1-", "1-0"):
        plot.get_by_label("Subtasks").fill(wrong)
        expect(plot.get_by_label("Subtasks")).to_have_attribute("aria-invalid", "true")
        plot.get_by_label("Subtasks").fill("")

    task.select_option(label="the job as a whole")
    form.locator("select[name=metric]").select_option(label="uptime")
    button.press("Enter")
    uptime = plot_of(page, "uptime")
    expect(uptime.locator("p")).to_have_text(re.compile(r"^ms: \d"))
    before = uptime.locator("p").text_content() or ""
    expect(uptime.locator("p")).not_to_have_text(before)  # it is live

    for one in (uptime, plot):
        one.get_by_role("button", name="Take away").press("Enter")
        expect(one).to_have_count(0)
    page.reload()
    expect(form).to_be_visible()
    expect(plot).to_have_count(0)


def test_what_the_browser_keeps_may_be_damaged_and_it_may_keep_nothing(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}")
    form = page.locator("form").filter(has=page.locator("select[name=metric]"))
    expect(form.locator("select[name=task]")).not_to_have_value("")
    form.locator("select[name=metric]").select_option(label="numRecordsInPerSecond")
    form.get_by_role("button", name="Plot it").click()
    take_away = page.get_by_role("button", name="Take away")
    expect(take_away).to_be_visible()
    page.evaluate("""() => {
        for (const key of Object.keys(localStorage).filter((one) => one.startsWith("pystate-plots ")))
            localStorage.setItem(key, localStorage.getItem(key).replaceAll('"name":', '"operator":{"toString":1},"name":'));
    }""")
    page.reload()
    expect(form).to_be_visible()
    expect(take_away).to_have_count(0)

    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }; }")
    form.get_by_role("button", name="Plot it").click()
    expect(take_away).to_be_visible()
    take_away.click()
    expect(take_away).to_have_count(0)


def test_a_metric_that_is_found_in_the_list_of_all_is_plotted_and_a_screen_reader_is_told_what(
    browser: Browser, manager: ManagerThread, job: str
) -> None:
    context = browser.new_context(locale="zh-CN", bypass_csp=True)
    pages = Pages(context, manager)
    page = pages.go(f"/jobs/{job}")
    page.locator(".node").first.click()
    page.get_by_text("全部指标").click()
    page.get_by_label("查找指标").fill("numRecordsIn")
    listed = page.get_by_role("button", name="绘制 numRecordsIn", exact=True)
    listed.press("Enter")
    expect(listed).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("img", name=re.compile("numRecordsIn 随时间的变化"))).to_be_visible()
    found = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:120]) for one in found] == []
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    pages.check_console()
    context.close()


OF = "(given) => import(new URL('ui/app/pages/metrics.js', location.href)).then((one) => ({f})(one, given))"
NOTED = OF.replace(
    "{f}",
    """({ note, notedOf }, moments) => {
      const pick = { vertex: "v", operator: null, name: "busy" };
      for (const [now, values] of moments) {
        const metrics = Object.entries(values).map(([subtask, value]) => ({ ...pick, subtask: Number(subtask), value }));
        note("j", [pick], metrics, now);
      }
      const { at, values } = notedOf("j", pick);
      note("j", [], [], 0);
      return [at, [...values.entries()], notedOf("j", pick).at];
    }""",
)


def test_a_subtask_that_comes_later_and_a_time_when_nobody_looked_are_gaps(pages: Pages) -> None:
    moments = [[100, {0: 5}], [101, {0: 6, 1: -(2**63)}], [102, {1: 7, 0: "n/a"}], [200, {0: 8, 1: 9}]]
    at, values, after = pages.page.evaluate(NOTED, moments)
    assert at == [100, 101, 102, 199, 200]
    assert values == [[0, [5, 6, None, None, 8]], [1, [None, None, 7, None, 9]]]
    assert after == [], "what isn't picked any more is forgotten"


LINES = OF.replace(
    "{f}",
    """({ linesOf, chosen }, texts) => texts.map((text) => chosen(text) &&
      linesOf(new Map([...Array(200).keys()].map((index) => [index, [index, null]])), chosen(text), null))""",
)


def test_of_more_subtasks_than_a_plot_can_show_it_shows_the_highest_the_mean_and_the_lowest(pages: Pages) -> None:
    told: Any = pages.page.evaluate(LINES, ["3, 7-8", "", "100-", "-"])
    assert [(line["label"], line["values"]) for line in told[0]] == [
        ("Subtask 3", [3, None]),
        ("Subtask 7", [7, None]),
        ("Subtask 8", [8, None]),
    ]
    assert [(line["label"], line["values"]) for line in told[1]] == [
        ("highest", [199, None]),
        ("mean", [99.5, None]),
        ("lowest", [0, None]),
    ]
    assert told[2:] == [None, None]

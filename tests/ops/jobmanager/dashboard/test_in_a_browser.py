"""The dashboard in a real browser, over a job manager with fake drivers: each page and button, languages, themes, sizes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect
from typer.main import get_command

from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import read_json
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.job_folder.failing_record import keep_failing_record
from pystate_cli.command_line import application
from tests.ops.jobmanager.harness import ManagerProcess, ManagerThread, eventually
from tests.ops.jobmanager.rest.test_kept_records import record
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.servers.chromium import browser as opened_browser
from tests.waiting import LONGEST_S

SNAPSHOTS = Path(__file__).parents[3] / "fixtures" / "snapshots" / "v0.1.0-format2"
TIMEOUT_MS = 1000 * LONGEST_S
VIEWS = ("", "/checkpoints", "/state", "/exceptions", "/log", "/settings")
WIDEST = """[...document.querySelectorAll("main *, header *")].filter((one) => !one.closest(".scroll, .graph, code, pre"))
  .filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML.slice(0, 90)).join("\\n")"""
"""What is wider than the screen, beside what scrolls on its own."""
HARMLESS = re.compile(r"Failed to load resource: the server responded with a status of (401|404|503)")

expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as started:
        yield started


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerThread]:
    folder = tmp_path_factory.mktemp("browser")
    settings = Configuration({"execution.checkpointing.savepoint-dir": str(SNAPSHOTS)})
    started = ManagerThread(folder / "home").start(settings)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def job(manager: ManagerThread) -> str:
    found = manager.submit("--epochs", "200", "--write-savepoint", "--name", "word count")
    manager.wait_for(found, "RUNNING")
    Statistics().run(5).write(manager.home.job(found).checkpoints)
    return found


@pytest.fixture(scope="module")
def failed(manager: ManagerThread) -> str:
    found = manager.submit("--fail-user", "0", "--name", "shares")
    manager.wait_for(found, "FAILED")
    return found


def all_pages(job: str, failed: str) -> list[str]:
    return [
        "/",
        "/savepoints",
        "/cluster",
        "/login",
        f"/jobs/{failed}/exceptions",
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
        assert [line for line in self.said if not HARMLESS.match(line)] == []


@pytest.fixture(scope="module")
def logged_in(browser: Browser, manager: ManagerThread) -> Iterator[Pages]:
    context = browser.new_context(viewport={"width": 1300, "height": 900}, locale="en-GB")
    yield Pages(context, manager)
    context.close()


@pytest.fixture
def pages(logged_in: Pages) -> Iterator[Pages]:
    """One page for all tests that leave it logged in: each begins where nothing is open."""
    logged_in.said.clear()
    expect(logged_in.go("/").get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    yield logged_in
    logged_in.check_console()


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


def test_the_graph_shows_a_task_and_its_subtasks(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}")
    expect(page.get_by_role("heading", name="Job graph")).to_be_visible()
    expect(page.get_by_text("Records per second", exact=True)).to_be_visible()
    timeline = page.locator("section").filter(has=page.get_by_role("heading", name="Time line of epochs"))
    expect(timeline.get_by_text("asking sources")).to_be_visible()


PARTITIONS = "(given) => import(new URL('ui/app/pages/sources.js', location.href)).then((one) => one.partitionsOf(given))"


def test_how_far_a_kafka_source_has_read_is_told_by_partition(pages: Pages) -> None:
    reader = "KafkaSourceReader.topic.a.partition.7.partition"
    values = {
        f"{reader}.10.currentOffset": 5,
        f"{reader}.10.pendingRecords": 2,
        f"{reader}.9.currentOffset": -1,
        "pendingRecords": 2,
    }
    metrics = [{"operator": "words", "name": name, "value": value} for name, value in values.items()]
    told: Any = pages.page.evaluate(PARTITIONS, metrics)
    assert [(one["topic"], one["partition"], one["currentOffset"], one.get("pendingRecords")) for one in told] == [
        ("a.partition.7", 9, -1, None),
        ("a.partition.7", 10, 5, 2),
    ]


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


def test_checkpoints_are_shown_down_to_their_subtasks(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}/checkpoints")
    page.get_by_role("button", name="5", exact=True).click()
    details = page.locator("section").filter(has=page.get_by_role("heading", name="Checkpoint 5"))
    details.get_by_role("button", expanded=False).first.click()
    expect(details.get_by_role("heading", name=re.compile("Subtasks of"))).to_be_visible()
    expect(details.get_by_role("columnheader", name="Alignment")).to_be_visible()


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


def test_an_exception_shows_the_kept_record_and_what_replays_it(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--fail-user", "0", "--name", "keeps its record")
    manager.wait_for(job, "FAILED")
    path = keep_failing_record(manager.home.job(job).path, record(0), 10)
    page = pages.go(f"/jobs/{job}/exceptions")
    kept = page.get_by_role("note").filter(has_text="The record at which it failed is kept.")
    expect(kept).to_contain_text("Subtask 1 of Shares took it.")
    expect(kept).to_contain_text(f"pystate debug {job} 1")
    expect(kept).to_contain_text(str(path))


def test_the_log_follows(pages: Pages, manager: ManagerThread, job: str) -> None:
    page = pages.go(f"/jobs/{job}/log")
    log = page.locator("pre.log")
    with manager.home.job(job).log.open("a") as file:
        file.write("2026-11-29 a first line\n")
    expect(log).to_contain_text("a first line")
    with manager.home.job(job).log.open("a") as file:
        file.write("2026-11-29 a later <b>line</b>\n")
    expect(log).to_contain_text("a later <b>line</b>")
    page.get_by_role("searchbox").fill("later")
    expect(log).not_to_contain_text("first line")


def test_a_savepoint_is_taken_and_shown_with_its_command(pages: Pages, job: str, tmp_path: Path) -> None:
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Savepoint", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("before the sale")
    expect(dialog).to_contain_text(f"pystate savepoint {job} --message 'before the sale'")
    dialog.get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_job_is_stopped_with_a_savepoint_by_hand(pages: Pages, manager: ManagerThread, tmp_path: Path) -> None:
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    job = manager.submit("--write-savepoint", "--name", "to stop", configuration=settings)
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"pystate stop {job}")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".title .badge")).to_have_text(re.compile("FINISHED"))
    assert manager.state(job) == "FINISHED"


def test_a_job_is_cancelled_by_hand_and_the_page_says_so(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--name", "to cancel")
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".title .badge")).to_have_text("CANCELED")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


def test_a_savepoint_is_looked_into_verified_and_compared(pages: Pages, manager: ManagerThread) -> None:
    page = pages.go("/savepoints")
    versions = page.locator("button.version")
    expect(versions.first).to_be_visible()
    versions.first.click()
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text(re.compile("It is sound|can't be relied on"))).to_be_visible()
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
    dialog.get_by_label("Name").fill("yesterday's")
    dialog.get_by_label("Parallelism").fill("1")
    expect(dialog).to_contain_text(f"pystate run -d -s file:{path} -p 1 --name 'yesterday'\\''s' {manager.job_file}")
    dialog.get_by_role("button", name="Start it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("yesterday's")
    forked = page.url.rpartition("/")[2]
    assert manager.request("GET", f"/pystate/jobs/{forked}/submission")[1]["savepoint_path"] == f"file:{path}"
    manager.request("PATCH", f"/jobs/{forked}")


def test_a_job_is_rescaled_by_the_page_alone_and_the_page_goes_on_with_it(
    pages: Pages, manager: ManagerThread, tmp_path: Path
) -> None:
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
    job = manager.submit("--name", "to rescale", configuration=settings)
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Rescale", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Parallelism").fill("3")
    expect(dialog).to_contain_text(f"pystate rescale {job} -p 3")
    dialog.get_by_role("button", name="Rescale it").click()
    expect(page).not_to_have_url(re.compile(job))
    expect(page.get_by_role("dialog")).to_have_count(0)
    successor = page.url.rpartition("/")[2]
    expect(page.get_by_role("heading", level=1)).to_have_text("to rescale")
    assert manager.request("GET", f"/pystate/jobs/{successor}/submission")[1]["parallelism"] == 3
    assert manager.state(job) == "FINISHED"
    manager.request("PATCH", f"/jobs/{successor}")


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


def test_each_setting_says_where_it_comes_from(pages: Pages, manager: ManagerThread) -> None:
    settings = {"state.backend.type": "rocksdb"}
    origins = {"state.backend.type": "file: /etc/flink-conf.toml, [state.backend] type"}
    job = manager.submit("--name", "settled", configuration=settings, origins=origins)
    page = pages.go(f"/jobs/{job}/settings")
    row = page.get_by_role("row").filter(has_text="state.backend.type")
    expect(row).to_contain_text("/etc/flink-conf.toml, [state.backend] type")
    page.get_by_label("Find an option").fill("checkpointing.timeout")
    expect(page.get_by_role("row").filter(has_text="execution.checkpointing.timeout")).to_contain_text("default")


def test_the_command_that_submits_once_more_is_whole_but_for_secrets(pages: Pages, manager: ManagerThread) -> None:
    given = {"s3.secret-key": "hush", "state.backend.type": "rocksdb"}
    job = manager.submit(
        configuration=given,
        origins={key: f"command line: -D {key}" for key in given},
        savepoint_path=str(next(SNAPSHOTS.iterdir())),
        allow_non_restored_state=True,
    )
    page = pages.go(f"/jobs/{job}/settings")
    command = page.locator("code").filter(has_text="pystate run -d")
    expect(command).to_contain_text(re.compile(" -s .* -n -D state.backend.type=rocksdb /"))
    expect(command).not_to_contain_text("secret-key")
    expect(page.get_by_text("Secret, and not in the command: s3.secret-key.")).to_be_visible()


def test_the_settings_of_a_job_that_its_own_program_runs_are_no_failure(pages: Pages, job: str) -> None:
    nothing = {"errors": ["run by its own program"]}
    pages.page.route("**/submission", lambda route: route.fulfill(status=404, json=nothing))
    page = pages.go(f"/jobs/{job}/settings")
    expect(page.get_by_text("The job is run by its own program, which alone knows its settings.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.unroute("**/submission")


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
    browser: Browser, pages: Pages, manager: ManagerThread, job: str
) -> None:
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


@pytest.mark.parametrize(
    ("width", "scheme", "locale"), [(320, "light", "zh-CN"), (320, "dark", "en-GB"), (2560, "dark", "zh-CN")]
)
def test_no_page_is_wider_than_the_screen(
    browser: Browser, manager: ManagerThread, job: str, failed: str, width: int, scheme: Any, locale: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, locale=locale)
    pages = Pages(context, manager)
    for hash_ in all_pages(job, failed):
        page = pages.go(hash_)
        expect(page.get_by_role("heading").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.evaluate(WIDEST)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.lang") == ("zh-CN" if locale == "zh-CN" else "en")
    pages.check_console()
    context.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_nothing_serious_is_in_the_way_of_a_screen_reader(
    browser: Browser, manager: ManagerThread, job: str, failed: str, scheme: Any
) -> None:
    size: Any = {"width": 1300, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB", bypass_csp=True)  # axe is injected
    pages = Pages(context, manager)
    found: list[str] = []
    for hash_ in all_pages(job, failed):
        page = pages.go(hash_)
        expect(page.get_by_role("heading").first).to_be_visible()
        for one in Axe().run(page).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                found += [f"{hash_} {one['id']}: {node['html'][:120]}" for node in one["nodes"]]
    assert found == []
    context.close()


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


def test_a_name_is_text_that_can_not_turn_around_what_is_beside_it(pages: Pages, manager: ManagerThread) -> None:
    name = "<img src=x onerror=alert(1)>\u202e{name}"
    job = manager.submit("--fail-user", "0", "--name", name)
    manager.wait_for(job, "FAILED")
    page = pages.go("/")
    needs = page.get_by_role("region", name="What needs you")
    expect(needs).to_contain_text(f"<img src=x onerror=alert(1)>\ufffd{{name}} ({job[:8]}) has failed")
    expect(pages.go(f"/jobs/{job}").get_by_role("heading", level=1)).to_have_text("<img src=x onerror=alert(1)>\ufffd{name}")


@pytest.mark.parametrize("hash_", ["/jobs/overview", "/jobs/%", "/jobs/..%2F..%2Foverview", "/jobs/x;reboot/log", "/jobs/"])
def test_an_address_of_no_job_is_told(pages: Pages, hash_: str) -> None:
    page = pages.go(hash_)
    expect(page.get_by_role("alert").filter(has_text="not the id of a job")).to_be_visible()
    page.get_by_role("link", name="Savepoints").click()
    expect(page.get_by_role("heading", name="Savepoints")).to_be_visible()


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


def test_ages_are_those_of_the_job_managers_clock(browser: Browser, manager: ManagerThread, job: str) -> None:
    context = browser.new_context(locale="en-GB")
    context.add_init_script("const real = Date.now.bind(Date); Date.now = () => real() - 600_000;")
    pages = Pages(context, manager)
    row = pages.go("/").get_by_role("row").filter(has_text=job[:8])
    expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(r"\d+ (s|min|ms)"))
    pages.check_console()
    context.close()


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

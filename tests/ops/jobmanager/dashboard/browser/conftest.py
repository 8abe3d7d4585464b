"""One browser and one job manager for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from tests.ops.jobmanager.dashboard.browser.pages import SNAPSHOTS, Pages
from tests.ops.jobmanager.harness import ManagerThread
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.servers.chromium import browser as opened_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with opened_browser() as started:
        yield started


@pytest.fixture(scope="package")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerThread]:
    folder = tmp_path_factory.mktemp("browser")
    settings = Configuration({"execution.checkpointing.savepoint-dir": str(SNAPSHOTS)})
    started = ManagerThread(folder / "home").start(settings)
    yield started
    started.stop()


@pytest.fixture(scope="package")
def job(manager: ManagerThread) -> str:
    found = manager.submit("--epochs", "200", "--write-savepoint", "--name", "word count")
    manager.wait_for(found, "RUNNING")
    Statistics().run(5).write(manager.home.job(found).checkpoints)
    return found


@pytest.fixture(scope="package")
def barriers(manager: ManagerThread) -> str:
    """A job on the real-time engine, whose third barrier was not acknowledged by all."""
    found = manager.submit("--engine", "real-time", "--name", "orders")
    manager.wait_for(found, "RUNNING")
    of = Statistics().run(1)
    for number in (2, 3):
        of.trigger(number)
        for uid, subtask, after in (("count", 0, 60), ("count", 1, 90), ("total", 0, 100))[: 3 if number == 2 else 2]:
            of.acknowledge(number, uid, subtask, after, alignment_ms=7)
    of.complete_and_notify(2, 130, 150)
    of.fail(3, CheckpointFailureReason.CHECKPOINT_EXPIRED)
    of.write(manager.home.job(found).checkpoints)
    return found


@pytest.fixture(scope="package")
def failed(manager: ManagerThread) -> str:
    found = manager.submit("--fail-user", "0", "--name", "shares")
    manager.wait_for(found, "FAILED")
    return found


@pytest.fixture(scope="package")
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

"""A job's settings in a browser: where each comes from, and the command that submits the job once more."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.ops.jobmanager.dashboard.browser.pages import SNAPSHOTS, Pages
from tests.ops.jobmanager.harness import ManagerThread


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

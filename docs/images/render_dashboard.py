"""Takes pictures of every page of the dashboard: `make screenshots`.

    python docs/images/render_dashboard.py build/screenshots [--docs docs/images] [--jobs JOB FAILED_JOB] [--only NAMES]

All pages at five widths, light and dark, in both languages, from a job that runs and one that has failed: both are started
from `benchmarks/dashboard/dashboard_job.py` in a home of their own; with --jobs two of this PYSTATE_HOME are taken. With
--docs also the pictures of docs/dashboard.md and the README.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import TimeoutError

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from running_job import RunningJob  # noqa: E402

from tests.servers.chromium import browser  # noqa: E402

JOB = ROOT / "benchmarks" / "dashboard" / "dashboard_job.py"
SETTINGS = {
    "execution.engine": "real-time",
    "execution.checkpointing.interval": "3 s",
    "execution.checkpointing.num-retained": "3",
    "pystate.debug.keep-failing-records": "10",
    "restart-strategy.type": "none",
}
BAD_ORDER = 600

WIDTHS = (320, 390, 768, 1280, 2560)
ALL_LOOKS = 1280
HEIGHT = 900
LOOK_MS = 3000
CLICK_MS = 15_000
LOOK_AT_PLOTS_MS = 40_000
LOOKS = (("light", "en-GB"), ("dark", "zh-CN"), ("dark", "en-GB"), ("light", "zh-CN"))
IN_DOCS = {"job": "dashboard-job.png", "checkpoints": "dashboard-checkpoints.png"}
DOCS_SIZE = {"width": 1240, "height": 900}


def asked(*words):
    """Return what a command answers as JSON."""
    command = [sys.executable, "-m", "pystate_cli", *words, "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)  # noqa: S603


@contextlib.contextmanager
def own_jobs():
    """Start a job that runs and one that fails; yield their ids once there is something to see of both."""
    with tempfile.TemporaryDirectory(prefix="dashboard-pictures-") as name:
        folder = Path(name)
        settings = {**SETTINGS, "execution.checkpointing.savepoint-dir": str(folder / "savepoints")}
        with RunningJob(folder, JOB, [], 2, settings) as job:
            os.environ["PYSTATE_HOME"] = str(job.home)
            options = [f"-D{key}={value}" for key, value in settings.items()]
            failed = job.call("run", "-d", "-p", "1", *options, str(JOB), "none", str(BAD_ORDER)).split()[-1]
            while len(job.completed_checkpoints()) < 5 or failed in job.call("list"):
                time.sleep(2)
            job.call("savepoint", job.job_id, "--message", "before the sale")
            yield job.job_id, failed


def logged_in(chromium, **options):
    """Return a page that is logged in, and its address."""
    answer = asked("ui")
    page = chromium.new_context(**options).new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{answer['address']}#login={answer['code']}")
    page.get_by_role("button", name="Log out").or_(page.get_by_role("button", name="退出登录")).wait_for()
    return page, answer["address"]


def pages(job, failed):
    """Return the pages by their names: address, and what is clicked there."""
    heaviest = [
        "button:text-is('orders')",
        ".heat + p button >> nth=0",
    ]
    return {
        "overview": ("/", []),
        "job": (f"/jobs/{job}", [".node.hot >> nth=0"]),
        "checkpoints": (
            f"/jobs/{job}/checkpoints",
            ["td button[aria-expanded] >> nth=0", "td button.plain[aria-expanded] >> nth=-1"],
        ),
        "state": (f"/jobs/{job}/state", heaviest),
        "exceptions": (f"/jobs/{failed}/exceptions", []),
        "log": (f"/jobs/{job}/log", []),
        "settings": (f"/jobs/{job}/settings", []),
        "savepoints": ("/savepoints", ["button.version >> nth=0"]),
        "cluster": ("/cluster", []),
        "login": ("/login", []),
        "rescale": (f"/jobs/{job}", [".actions button >> nth=2"]),
    }


def show(page, address, hash_, clicks):
    """Open a page and click there."""
    page.goto(f"{address}#{hash_}")
    page.wait_for_timeout(LOOK_MS)
    for where in clicks:
        try:
            page.locator(where).click(timeout=CLICK_MS)
        except TimeoutError as error:
            print(f"{hash_}: {where} can't be clicked: {error}"[:200])
        page.wait_for_timeout(LOOK_MS // 2)


def main():
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", nargs=2, metavar=("JOB", "FAILED_JOB"))
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--only", help="names of pages, with commas")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    given = parser.parse_args()
    with contextlib.nullcontext(given.jobs) if given.jobs else own_jobs() as (job, failed):
        render(
            given, {name: one for name, one in pages(job, failed).items() if not given.only or name in given.only.split(",")}
        )


def render(given, wanted):
    """Take the pictures of some pages."""
    given.folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for index, width in enumerate(given.widths):
            looks = LOOKS if width == ALL_LOOKS else [LOOKS[index % len(LOOKS)]]
            for scheme, locale in looks:
                options = {"viewport": {"width": width, "height": HEIGHT}, "color_scheme": scheme, "locale": locale}
                page, address = logged_in(chromium, **options)
                for name, (hash_, clicks) in wanted.items():
                    show(page, address, hash_, clicks)
                    page.evaluate("scrollTo(0, 0)")  # else the head of the page is where it was scrolled to
                    file = given.folder / f"{name}-{width}-{scheme}-{locale[:2]}.png"
                    page.screenshot(path=file, full_page=name != "rescale")
                page.context.close()
        if given.docs:
            page, address = logged_in(chromium, viewport=DOCS_SIZE, locale="en-GB")
            for name, file in IN_DOCS.items():
                hash_, clicks = wanted[name]
                page.goto(f"{address}#{hash_}")
                page.wait_for_timeout(LOOK_AT_PLOTS_MS)
                show(page, address, hash_, clicks[:1])
                page.evaluate("scrollTo(0, 0)")
                page.screenshot(path=given.docs / file, clip={"x": 0, "y": 0, **DOCS_SIZE})


if __name__ == "__main__":
    main()

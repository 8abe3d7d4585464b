"""Three questions, answered by the dashboard's pages alone: the steps, and what each took.

    python benchmarks/dashboard/dashboard_questions.py [--only 1,2,3]

1. Which subtask is slow, and why did the last checkpoint fail?
2. Go back to yesterday's state with today's program.
3. Which keys make key group N heavy?

Asked of the jobs of `dashboard_job.py` in a cluster of its own: it is begun with a subtask that is slow, a savepoint, and
checkpoints that fail later. Every step is a click on what can be seen, or a text that is typed; no address is typed, and
nothing is asked of REST. A person reads between the steps: the time of each step is that of the pages.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from benchmarks.running_job import RunningJob
from tests.servers.chromium import browser

JOB = Path(__file__).with_name("dashboard_job.py")
LONGEST_MS = 300_000


class Steps:
    """What somebody does with a page, and what each step took."""

    def __init__(self, page, question):
        self.page = page
        self.done = []
        print(f"\n## {question}\n", flush=True)

    def click(self, what, told):
        self._step(told, lambda: what.first.click())

    def read(self, what, told):
        """Wait for an answer to be there, and return it."""
        self._step(told, lambda: what.first.wait_for())
        return " ".join(what.first.inner_text().split())

    def type(self, where, text, told):
        self._step(told, lambda: where.first.fill(text))

    def _step(self, told, act):
        began = time.monotonic()
        act()
        self.done.append(time.monotonic() - began)
        print(f"{len(self.done)}. {told} ({self.done[-1]:.1f} s)", flush=True)

    def end(self, answer):
        print(f"\n{answer}\n{len(self.done)} steps, {sum(self.done):.1f} s.", flush=True)


def section(page, heading):
    return page.locator("section").filter(has=page.get_by_role("heading", name=re.compile(heading)))


def slow_and_failed(page):
    steps = Steps(page, "Which subtask is slow, and why did the last checkpoint fail?")
    steps.click(page.get_by_role("link", name="orders", exact=True), "Click the job in the list")
    steps.click(
        page.get_by_role("button", name=re.compile("skewed")), "Click the task whose bar is full; it is marked as skewed"
    )
    subtasks = section(page, "Subtasks of spent by customer")
    rows = subtasks.locator("tbody tr")
    steps.read(rows, "Read the loads of its subtasks")
    loads = {row.locator("td").nth(0).inner_text(): row.locator("td").nth(1).inner_text().strip() for row in rows.all()}
    steps.click(page.get_by_role("link", name="Checkpoints", exact=True), "Click Checkpoints")
    why = steps.read(
        page.get_by_role("alert").filter(has_text=re.compile("Checkpoint .* failed")), "Read why the last one failed"
    )
    steps.click(page.get_by_role("button", name="Show what was missing"), "Click Show what was missing")
    missing = page.get_by_role("row").filter(has_text="not acknowledged")
    told = steps.read(missing, "Read which subtask did not acknowledge it")
    steps.end(f"Loads by subtask: {loads}. {why} Missing: subtask {told}.")


def back_to_yesterday(page):
    steps = Steps(page, "Go back to yesterday's state with today's program.")
    steps.click(page.get_by_role("link", name="Savepoints", exact=True), "Click Savepoints")
    steps.click(page.locator("button.version").filter(has_text="yesterday"), "Click the version of yesterday in the tree")
    steps.click(page.get_by_role("button", name="Start a job from here"), "Click Start a job from here")
    dialog = page.get_by_role("dialog")
    steps.click(dialog.get_by_label(re.compile("in place of")), "Tick: in place of the job that runs")
    steps.click(dialog.get_by_role("button", name="Put it back"), "Click Put it back")
    steps.read(page.get_by_role("heading", level=1, name="orders"), "The page of the job that goes on appears")
    state = steps.read(page.locator(".title .badge").filter(has_text="RUNNING"), "Read that it runs")
    steps.end(f"{page.url.rpartition('/')[2]} is {state}.")


def heavy_keys(page):
    steps = Steps(page, "Which keys make the heaviest key group heavy?")
    steps.click(page.get_by_role("link", name="Jobs", exact=True), "Click Jobs")
    steps.click(page.get_by_role("link", name="orders", exact=True), "Click the job in the list")
    steps.click(page.get_by_role("link", name="State", exact=True), "Click State")
    steps.click(page.get_by_role("button", name="orders", exact=True), "Click the largest state")
    groups = page.locator("p", has_text="Heaviest key groups:").get_by_role("button")
    group = steps.read(groups, "Read the heaviest key groups")
    number = group.split()[0]
    steps.type(page.get_by_label("Key group", exact=True), number, f"Type {number}")
    steps.click(page.get_by_role("button", name="Show its largest keys"), "Click Show its largest keys")
    heading = page.get_by_role("heading", name=re.compile("The largest of"))
    steps.read(heading, "Read its keys")
    row = steps.read(heading.locator("xpath=following-sibling::div[1]").locator("tbody tr"), "Read the largest")
    steps.end(f"Key group {group}: {row}.")


QUESTIONS = {"1": slow_and_failed, "3": heavy_keys, "2": back_to_yesterday}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="1,2,3")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="dashboard-questions-") as name:
        folder = Path(name)
        settings = {
            "execution.engine": "real-time",
            "execution.checkpointing.interval": "3 s",
            "execution.checkpointing.timeout": "6 s",
            "execution.checkpointing.tolerable-failed-checkpoints": "1000",
            "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
            "execution.checkpointing.num-retained": "5",
            "web.checkpoints.history": "50",
        }
        with RunningJob(folder, JOB, [folder / "stop"], 2, settings) as job, browser() as chromium:
            while len(job.completed_checkpoints()) < 5:
                time.sleep(2)
            job.call("savepoint", job.job_id, "--message", "yesterday")
            answer = json.loads(job.call("ui", "--json"))
            page = chromium.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB").new_page()
            page.set_default_timeout(LONGEST_MS)
            page.goto(f"{answer['address']}#login={answer['code']}")
            page.get_by_role("button", name="Log out").wait_for()
            for number, question in QUESTIONS.items():
                if number not in given.only.split(","):
                    continue
                if number == "1":
                    (folder / "stop").touch()
                    root, failed = answer["address"], 0
                    while not failed:
                        time.sleep(1)
                        with urllib.request.urlopen(f"{root}jobs/{job.job_id}/checkpoints") as told:  # noqa: S310 - http
                            failed = json.load(told)["counts"]["failed"]
                question(page)
                (folder / "stop").unlink(missing_ok=True)
            page.context.close()
            for one in json.loads(job.call("list", "--running", "--json"))["jobs"]:
                job.call("cancel", one["jobId"])


if __name__ == "__main__":
    main()

"""Whether memory stays flat while a page is open: an hour of a running job, a row each minute.

    python benchmarks/dashboard/dashboard_memory.py [--minutes 60] [--page ""]

A small job that runs (`dashboard_memory_job.py`: 50 rows a second, a checkpoint every 5 s, parallelism 1), its job
manager, and Debian's Chromium, headless, logged in, with one page of the job open, which follows all that changes. Each
minute: the page's heap after forced collections, its elements, nodes and listeners, and the memory (RSS) of job manager
and driver. The table is printed as it grows; the last line says what the last third is
over the third before, by median and by the lowest.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from benchmarks.running_job import RunningJob
from tests.security.process_usage import ProcessUsage
from tests.servers.chromium import browser

JOB = Path(__file__).with_name("dashboard_memory_job.py")
SETTINGS = {"execution.engine": "real-time", "execution.checkpointing.interval": "5 s"}
HEAD = ("minute", "heap, MB", "elements", "nodes", "listeners", "job manager, MB", "driver, MB")


def ask(found, home, path, method="GET"):
    token = (home / "token").read_text().strip()
    request = urllib.request.Request(f"http://127.0.0.1:{found['port']}{path}", method=method)  # noqa: S310 - always http
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        return json.load(answer)


def measured(page, session):
    """Return the page's heap in MB after forced collections, its elements, nodes and listeners."""
    session.send("HeapProfiler.enable")
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    counted = session.send("Memory.getDOMCounters")
    used = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    return used, page.evaluate("document.querySelectorAll('*').length"), counted["nodes"], counted["jsEventListeners"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--page", default="", help="the view of the job, as in its address: /checkpoints")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="dashboard-memory-") as folder:
        with RunningJob(Path(folder), JOB, [], 1, SETTINGS) as job, browser() as chromium:
            found = json.loads((job.home / "jobmanager.json").read_text())
            driver = ask(found, job.home, f"/pystate/jobs/{job.job_id}")["pid"]
            context = chromium.new_context(viewport={"width": 1300, "height": 900}, locale="en-GB")
            page = context.new_page()
            session = context.new_cdp_session(page)
            root = f"http://127.0.0.1:{found['port']}/"
            page.goto(f"{root}#login={ask(found, job.home, '/pystate/login-codes', 'POST')['code']}")
            page.get_by_role("button", name="Log out").wait_for()
            page.goto(f"{root}#/jobs/{job.job_id}{given.page}")
            print(f"{os.cpu_count()} cores, page {given.page or '/'}, {JOB.name}\n\n| {' | '.join(HEAD)} |")
            print(f"|{'---|' * len(HEAD)}", flush=True)
            began = time.monotonic()
            for minute in range(1, given.minutes + 1):
                page.wait_for_timeout(max(0.0, began + 60 * minute - time.monotonic()) * 1000)
                held = (ProcessUsage.of(found["pid"]).rss_mb, ProcessUsage.of(driver).rss_mb)
                rows.append((minute, *measured(page, session), *held))
                print(f"| {minute} | {rows[-1][1]:.2f} | {' | '.join(map(str, rows[-1][2:]))} |", flush=True)
                if job.ended:
                    sys.exit(job.ended)
            context.close()
    third = max(1, len(rows) // 3)
    told = []
    for index, name in enumerate(HEAD[1:], 1):
        last, before = ([row[index] for row in part] for part in (rows[-third:], rows[-2 * third : -third] or rows[-third:]))
        ratios = (form(last) / max(1e-9, form(before)) for form in (statistics.median, min))
        told.append(f"{name} {next(ratios):.3f}, {next(ratios):.3f}")
    print(f"\nMedian and lowest of the last {third} minutes over those of the {third} before: {'; '.join(told)}.")


if __name__ == "__main__":
    main()

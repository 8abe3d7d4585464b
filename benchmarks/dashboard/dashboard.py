"""How fast the dashboard's pages are with much to show: time, bytes, elements, long tasks, memory.

    python benchmarks/dashboard/dashboard.py [--before TREE] [--rounds N] [--updates N] [--only pages] [--write FILE]

Jobs without slots, which answer by the code of real drivers, in a process of their own; a job manager in another one;
Debian's Chromium, headless, logged in. *checkpoints*: the page of 1,000 checkpoints of 200 subtasks of a running job;
*ended*: the same of a job that has ended. *jobs*: the list of 200 jobs, scrolled for five seconds while it follows.
*memory*: the list of 20 jobs and the checkpoints of one of them, each for as many answers as an hour has seconds, at a
higher rate: the heap after forced collections, ten times on the way; with `--minutes` at the rate of pages, for so long.
*of the page's thread* is processor time, which other work on the machine changes less than times that are shown. With
`--before` the pages of another checkout, which has `tests/ops/jobmanager/harness.py`, are measured in turn with these, and
ratios are of the same round.
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "runtime"), str(ROOT)]

from tests.security.process_usage import processor_seconds
from tests.servers.chromium import browser

JOB = f"{1:032x}"
CHECKPOINTS = {"jobs": 1, "subtasks": 200, "checkpoints": 1000}
SERVE = """
import functools, sys
from pathlib import Path
from pystate.ops.jobmanager.dashboard import dashboard_routes
from pystate.ops.jobmanager.dashboard.watches import Watches
from tests.ops.jobmanager.harness import ManagerThread
dashboard_routes.Watches = functools.partial(Watches, interval=float(sys.argv[2]))
manager = ManagerThread(Path(sys.argv[1])).start()
print(manager.port, flush=True)
sys.stdin.read()
manager.stop()
"""
WATCH = """
window.found = { long: [], first: null, wanted: WANTED };
new PerformanceObserver((list) => list.getEntries().forEach((one) => window.found.long.push(one.duration)))
  .observe({ type: "longtask", buffered: true });
new MutationObserver(() => {
  if (window.found.first !== null || !document.querySelector(window.found.wanted)) return;
  requestAnimationFrame(() => { window.found.first ??= performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
COUNT_ANSWERS = """async (paths) => {
  window.taken = 0;
  const { tap } = await import(new URL("ui/app/rest.js", location.href));
  for (const path of paths) tap(path, () => { window.taken += 1; });
}"""
SCROLL = """async () => {
  window.found.long = [];
  const until = performance.now() + 5000;
  let down = true;
  while (performance.now() < until) {
    window.scrollBy(0, down ? 60 : -60);
    if (window.scrollY + innerHeight >= document.documentElement.scrollHeight - 2) down = false;
    if (window.scrollY <= 0) down = true;
    await new Promise(requestAnimationFrame);
  }
  return window.found.long;
}"""


class Side:
    """A checkout of pystate with a job manager over hosted jobs.

    Args:
        tree: The checkout.
        hosted: What `tests/ops/jobmanager/hosted_jobs.py` is to host.
        interval: Seconds between two answers.
    """

    def __init__(self, tree, hosted, interval=1.0):
        self._folder = tempfile.TemporaryDirectory()
        home = str(Path(self._folder.name) / "home")
        hosts = str(ROOT / "tests/ops/jobmanager/hosted_jobs.py")
        environment = {**os.environ, "PYTHONPATH": f"{tree / 'runtime'}:{tree}"}
        self._hosts = self._begin([sys.executable, hosts, home, json.dumps(hosted)], environment)
        assert self._hosts.stdout.readline() == b"ready\n"
        self._manager = self._begin([sys.executable, "-c", SERVE, home, str(interval)], environment)
        self.root = f"http://127.0.0.1:{int(self._manager.stdout.readline())}/"
        self._token = (Path(home) / "token").read_text().strip()
        self.processes = {"drivers": self._hosts.pid, "job manager": self._manager.pid}

    def _begin(self, words, environment):
        with open(Path(self._folder.name) / "log", "ab") as log:
            return subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def code(self):
        """Return a code that logs a page in."""
        address = f"{self.root}pystate/login-codes"
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(address, method="POST", headers=headers)  # noqa: S310 - always http
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.loads(answer.read())["code"]

    def close(self):
        """End the processes."""
        for process in (self._manager, self._hosts):
            process.stdin.close()
            process.wait()
            process.stdout.close()
        self._folder.cleanup()


class Opened:
    """A page that is logged in and shows nothing much yet."""

    def __init__(self, chromium, side, wanted):
        self.context = chromium.new_context(viewport={"width": 1300, "height": 900}, locale="en-GB")
        self.page = self.context.new_page()
        self.page.set_default_timeout(180_000)
        self.session = self.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(f"{side.root}#login={side.code()}")
        self.page.get_by_role("button", name="Log out").wait_for()
        self.page.add_init_script(WATCH.replace("WANTED", json.dumps(wanted)))
        self._root = side.root

    def show(self, hash_):
        """Load a page anew, and return the milliseconds until it has shown what is wanted."""
        self.page.goto("about:blank")
        self.page.goto(f"{self._root}#{hash_}")
        self.wait_until("window.found?.first !== null")
        return self.page.evaluate("window.found.first")

    def wait_until(self, condition):
        """Wait for a condition; the page's policy lets no script wait for one that is text."""
        until = time.monotonic() + 900
        while not self.page.evaluate(condition):
            assert time.monotonic() < until, condition
            self.page.wait_for_timeout(50)

    @property
    def elements(self):
        return self.page.evaluate("document.querySelectorAll('*').length")

    def thread_ms(self):
        """Return the processor time that the page's thread has used for tasks."""
        found = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(one["value"] for one in found if one["name"] == "TaskDuration")

    def heap(self):
        """Return the bytes in use after forced collections, elements in documents, and listeners."""
        self.session.send("HeapProfiler.enable")
        for _ in range(2):
            self.session.send("HeapProfiler.collectGarbage")
        counted = self.session.send("Memory.getDOMCounters")
        used = self.session.send("Runtime.getHeapUsage")["usedSize"]
        return used, counted["nodes"], counted["jsEventListeners"]


def measure(chromium, hosted, wanted, hash_, figures):
    """Return what a page's first show and some seconds after it cost.

    Args:
        chromium: The browser.
        hosted: A `Side`; it is closed.
        wanted: The selector of what counts as shown.
        hash_: The page.
        figures: Called with the page: lets some seconds pass, and returns figures of its own.
    """
    try:
        opened = Opened(chromium, hosted, wanted)
        idle = opened.thread_ms()
        found = {"shown, ms": opened.show(hash_)}
        found["of the page's thread until then, ms"] = spent = opened.thread_ms() - idle
        before = {name: processor_seconds(pid) for name, pid in hosted.processes.items()}
        began = time.monotonic()
        found.update(figures(opened.page))
        passed = time.monotonic() - began
        found["of the page's thread later, ms a second"] = (opened.thread_ms() - idle - spent) / passed
        found["elements"] = opened.elements
        for name, pid in hosted.processes.items():
            found[f"{name}, % of a core"] = 100 * (processor_seconds(pid) - before[name]) / (time.monotonic() - began)
        opened.context.close()
        return found
    finally:
        hosted.close()


def measure_checkpoints(chromium, tree, ended):
    def figures(page):
        at_first = page.evaluate("window.found.long")
        page.wait_for_timeout(5000)
        later = page.evaluate("window.found.long")[len(at_first) :]
        return {"longest task at first, ms": max(at_first, default=0), "longest task later, ms": max(later, default=0)}

    side = Side(tree, {**CHECKPOINTS, "ended": ended, "every": 0 if ended else 1})
    return measure(chromium, side, "td button[aria-expanded]", f"/jobs/{JOB}/checkpoints", figures)


def measure_list(chromium, tree):
    def figures(page):
        page.wait_for_timeout(4000)
        long = page.evaluate(SCROLL)
        return {"longest task while scrolling, ms": max(long, default=0), "long tasks while scrolling": len(long)}

    side = Side(tree, {"jobs": 200, "subtasks": 4, "checkpoints": 3, "every": 5})
    return measure(chromium, side, "tr.pick", "/", figures)


def measure_memory(chromium, tree, hash_, wanted, updates, minutes):
    """Return the heap after each tenth of the updates, or of the minutes, and the number of answers."""
    rates = {"every": 1} if minutes else {"every": 0.2}
    side = Side(tree, {"jobs": 20, "subtasks": 20, "checkpoints": 10, **rates}, interval=1.0 if minutes else 0.02)
    try:
        opened = Opened(chromium, side, wanted)
        opened.show(hash_)
        watched = ["/pystate/jobs/figures", "/jobs/overview", f"/jobs/{JOB}/checkpoints?limit=100"]
        opened.page.evaluate(COUNT_ANSWERS, watched)
        found = []
        for tenth in range(1, 11):
            if minutes:
                opened.page.wait_for_timeout(minutes * 60_000 / 10)
            else:
                opened.wait_until(f"window.taken >= {updates * tenth // 10}")
            found.append(opened.heap())
        taken = opened.page.evaluate("window.taken")
        opened.context.close()
        return found, taken
    finally:
        side.close()


def table(title, trees, rounds, measured):
    """Print medians of rounds, and the ratio of each round's two sides."""
    found = {name: [] for name in trees}
    for _ in range(rounds):
        for name, tree in trees.items():
            found[name].append(measured(tree))
    print(f"\n{title}\n\n| | {' | '.join(trees)} |{' now over before |' if len(trees) > 1 else ''}")
    print(f"|---|{'---|' * (len(trees) + (len(trees) > 1))}")
    for figure in found["now"][0]:
        values = {name: [one[figure] for one in rows] for name, rows in found.items()}
        cells = [f"{statistics.median(each):,.0f}" for each in values.values()]
        if len(trees) > 1:
            ratios = [now / before for now, before in zip(values["now"], values["before"], strict=True) if before]
            cells.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        print(f"| {figure} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3600)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--only", choices=("checkpoints", "ended", "jobs", "memory", "pages"), help="pages: all but memory")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write what is printed there, too")
    given = parser.parse_args()
    if given.write is None:
        measure_all(given)
        return
    told = io.StringIO()
    with contextlib.redirect_stdout(Both(sys.stdout, told)):
        measure_all(given)
    given.write.write_text(told.getvalue(), encoding="utf-8")


class Both(io.TextIOBase):
    """Writes to two streams."""

    def __init__(self, *streams):
        self._streams = streams

    def write(self, text):
        for stream in self._streams:
            stream.write(text)
            stream.flush()
        return len(text)


def measure_all(given):
    """Measure what was asked for, and print it."""
    trees = {**({"before": given.before.resolve()} if given.before else {}), "now": ROOT}
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")

    def wants(name):
        return given.only in (None, name) or (given.only == "pages" and name != "memory")

    with browser() as chromium:
        for name, title, ended in (
            ("checkpoints", "1,000 checkpoints of 200 subtasks, running", False),
            ("ended", "The same, of a job that has ended", True),
        ):
            if wants(name):
                table(title, trees, given.rounds, lambda tree, ended=ended: measure_checkpoints(chromium, tree, ended))
        if wants("jobs"):
            table("200 jobs", trees, given.rounds, lambda tree: measure_list(chromium, tree))
        for name, hash_, wanted in (
            (("list", "/", "tr.pick"), ("checkpoints", f"/jobs/{JOB}/checkpoints", "td button")) if wants("memory") else ()
        ):
            heaps, taken = measure_memory(chromium, ROOT, hash_, wanted, given.updates, given.minutes)
            sizes = ", ".join(f"{used / 1e6:.2f}" for used, _, _ in heaps)
            print(f"\nHeap of the {name} after each tenth of {taken} answers, MB: {sizes};", end=" ")
            print(f"elements {heaps[0][1]} to {heaps[-1][1]}, listeners {heaps[0][2]} to {heaps[-1][2]}", flush=True)


if __name__ == "__main__":
    main()

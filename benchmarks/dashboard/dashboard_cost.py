"""What lookers at the dashboard cost a running job: nobody, one, and twenty of them, in one run.

    python benchmarks/dashboard/dashboard_cost.py [--engine real-time] [--rounds 8] [--seconds 10] [--rate 2000]

The job of `back_pressure.py` without its sleep runs as fast as it can, or gets so many records a second. A looker is
what a page in a browser is to the job manager: a stream of the answers that the page shows, with a token. One looks at the
graph; twenty at the graph, the checkpoints and the list in turn. In each round the three take turns in another order.
*CPU a row*: processor time of all the job's processes (driver, JVM, slots, workers) for a row, over that of the round
without lookers, the median of the rounds; on a machine with other work it says more than rows a second do, whose ratio
stands beside it. *driver*: what its process takes of a core, which is all of the job that is asked. *job manager*: the same
of the process that asks.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.keyed_count import machine
from benchmarks.running_job import RunningJob
from tests.security.process_usage import processor_seconds

JOB = Path(__file__).parents[1] / "real_time" / "back_pressure_job.py"
LOOKERS = {"nobody": 0, "one": 1, "twenty": 20}
WARM_UP_S = 60


def pages(job_id):
    """Return the paths that each page shows, as `app/pages` asks for them."""
    job, figures = f"/jobs/{job_id}", "/pystate/jobs/figures"
    return (
        [job, figures, f"/pystate{job}/metrics", f"/pystate{job}/progress"],
        [job, f"{job}/checkpoints?limit=100"],
        ["/jobs/overview", figures, "/pystate/disks"],
    )


class Cluster:
    """The processes of a job and its job manager, and questions to that."""

    def __init__(self, job):
        found = json.loads((job.home / "jobmanager.json").read_text())
        self.job_id = job.job_id
        self.manager = found["pid"]
        self._root = f"http://127.0.0.1:{found['port']}"
        self._token = (job.home / "token").read_text().strip()
        self.driver = self.ask(f"/pystate/jobs/{job.job_id}")["pid"]

    def open(self, path):
        headers = {"Authorization": f"Bearer {self._token}"}
        return urllib.request.urlopen(urllib.request.Request(self._root + path, headers=headers), timeout=120)  # noqa: S310

    def ask(self, path):
        with self.open(path) as answer:
            return json.load(answer)

    def rows(self):
        """Return how many records the job's last task has taken."""
        metrics = self.ask(f"/pystate/jobs/{self.job_id}/metrics")["metrics"]
        found = {}
        for one in metrics:
            if one["name"] == "numRecordsIn" and one["operator"] is None:
                found[one["task"]] = found.get(one["task"], 0) + one["value"]
        return max(found.values(), default=0)

    def seconds(self):
        """Return the processor seconds of all the job's processes, of its driver, and of the job manager."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        below = {}
        for pid, parent in (map(int, line.split()) for line in listed.splitlines()):
            below.setdefault(parent, []).append(pid)
        ways, total = [self.driver], 0.0
        while ways:
            pid = ways.pop()
            with contextlib.suppress(OSError):  # it has ended since
                total += processor_seconds(pid)
            ways += below.get(pid, [])
        return total, processor_seconds(self.driver), processor_seconds(self.manager)


@contextlib.contextmanager
def looking(cluster, number):
    """Let lookers look; yields when each has seen something."""
    opened, ended = [], threading.Event()

    def look(stream):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # it is closed while it reads
            while stream.readline() and not ended.is_set():
                pass

    for index in range(number):
        shown = pages(cluster.job_id)[index % 3]
        stream = cluster.open("/pystate/watch?" + "&".join(f"path={quote(path)}" for path in shown))
        while b"data:" not in stream.readline():
            pass
        opened.append((stream, threading.Thread(target=look, args=(stream,), daemon=True)))
        opened[-1][1].start()
    try:
        yield
    finally:
        ended.set()
        for stream, thread in opened:
            thread.join(30)
            stream.close()


def window(cluster, number, seconds):
    """Return what some seconds cost: rows, seconds, and processor seconds of job, driver and job manager."""
    with looking(cluster, number):
        time.sleep(2)
        rows, began, before = cluster.rows(), time.monotonic(), cluster.seconds()
        time.sleep(seconds)
        after, passed, more = cluster.seconds(), time.monotonic() - began, cluster.rows() - rows
        return [more, passed, *(late - early for early, late in zip(before, after, strict=True))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("real-time", "micro-batch"), default="real-time")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rate", type=int, help="records a second; as many as can be without")
    given = parser.parse_args()
    print(f"{machine()}\n{given.engine}, {given.rounds} rounds of {given.seconds:g} s, rate {given.rate}", flush=True)
    settings = {
        "execution.engine": given.engine,
        "execution.checkpointing.interval": "5 s",
        "web.checkpoints.history": "100",
    }
    found = {name: [] for name in LOOKERS}
    loads = []
    with tempfile.TemporaryDirectory(prefix="dashboard-cost-") as folder:
        with RunningJob(
            Path(folder), JOB, [0, 100, *([given.rate] if given.rate else [])], given.parallelism, settings
        ) as job:
            cluster = Cluster(job)
            while cluster.rows() == 0:
                time.sleep(1)
            time.sleep(WARM_UP_S)
            for number in range(given.rounds):
                order = list(LOOKERS)
                random.Random(number).shuffle(order)
                for name in order:
                    found[name].append(window(cluster, LOOKERS[name], given.seconds))
                loads.append(os.getloadavg()[0])
                if job.ended:
                    raise SystemExit(job.ended)
    print(f"load average {min(loads):.1f} to {max(loads):.1f}\n")
    print("| lookers | CPU a row, us | over nobody | each round | rows/s over nobody | driver, % of a core | job manager |")
    print("|---|---|---|---|---|---|---|")

    def cost(one):
        return one[2] / max(one[0], 1) * 1e6

    def rate(one):
        return one[0] / one[1]

    for name, rounds in found.items():
        over = [cost(one) / cost(bare) - 1 for one, bare in zip(rounds, found["nobody"], strict=True)]
        speed = statistics.median(rate(one) / rate(bare) for one, bare in zip(rounds, found["nobody"], strict=True))
        driver, manager = (statistics.median(100 * one[place] / one[1] for one in rounds) for place in (3, 4))
        each = f"{min(over):+.1%} to {max(over):+.1%}"
        row = f"{statistics.median(map(cost, rounds)):.1f} | {statistics.median(over):+.1%} | {each} | {speed:.3f}"
        print(f"| {name} | {row} | {driver:.1f} | {manager:.1f} |")


if __name__ == "__main__":
    main()

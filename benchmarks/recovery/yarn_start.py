"""Seconds from `pystate run` to RUNNING and to the first result, on YARN and on threads of this machine.

    make servers
    python benchmarks/recovery/yarn_start.py [ROUNDS]

YARN and HDFS are those of the tests, on loopback; Spark's jars are on the nodes. The two ways take turns.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "runtime"), str(ROOT)]

from tests.e2e.clusters.test_yarn import PROGRAM, options_on  # noqa: E402
from tests.faults.workload import Watched  # noqa: E402
from tests.servers.yarn_cluster import running_yarn_cluster  # noqa: E402


def pystate(environment, *words):
    """Call `pystate`; return what it prints."""
    command = [sys.executable, "-m", "pystate_cli", *map(str, words)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout.strip()


def started(environment, options, program, words):
    """Run a job; return the seconds until RUNNING and until its first result."""
    settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    begin = time.monotonic()
    job_id = pystate(environment, "run", "-d", "-p", 2, *settings, program, f"file://{words}")
    running = time.monotonic() - begin
    log = Path(environment["PYSTATE_HOME"], "jobs", job_id, "job.log")
    while "(word-" not in log.read_text("utf-8", "replace"):
        time.sleep(0.05)
    first = time.monotonic() - begin
    pystate(environment, "cancel", job_id)
    return running, first


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as name, running_yarn_cluster(Path(name) / "cluster") as cluster:
        folder = Path(name)
        program = folder / "job.py"
        program.write_text(PROGRAM)
        watched = Watched(folder)
        watched.add(3)
        environment = {**os.environ, **cluster.environment, "PYSTATE_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
        on_yarn = options_on(cluster, "micro-batch")
        ways = {
            "YARN": on_yarn,
            "threads": {k: v for k, v in on_yarn.items() if not k.startswith(("spark.", "pystate.spark"))},
        }
        took = {way: [] for way in ways}
        for _ in range(rounds):
            for way, options in ways.items():
                took[way].append(started(environment, options, program, watched.folder))
        pystate(environment, "cluster", "stop")
    print(f"load average {os.getloadavg()[0]:.1f}, {rounds} rounds, medians")
    print("| | until RUNNING | until the first result |\n|---|---|---|")
    for way, pairs in took.items():
        running, first = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"| {way} | {running:.1f} s | {first:.1f} s |")


if __name__ == "__main__":
    main()

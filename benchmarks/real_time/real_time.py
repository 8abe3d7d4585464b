"""How old records are when they are counted after a shuffle, how long checkpoints take, and how many records go through.

    python benchmarks/real_time/real_time.py [--rate 50000] [--slow-rate 5000] [--seconds 20] [--parallelism 2] [--rounds 1]
        [--pyflink PYTHON]

`source -> map -> key_by -> count in state`, with a checkpoint a second, on both engines and in PyFlink (thread mode), one
after the other; then as many records as go, which is the throughput of each. PyFlink gets `--slow-rate` records a
second, since it can't do the other rate; the real-time engine is measured with that one, too.
Ages are those of all records after the first seconds; a record of a micro-batch waits for its epoch. A side that doesn't
run says why.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from running_job import RunningJob

JOB = Path(__file__).with_name("real_time_job.py")
WARM_SECONDS = 5
PATIENCE_SECONDS = 300
PORT = 18599


class Run:
    """One side, running for a while."""

    def __init__(self, folder, seconds):
        self.folder = folder / "ages"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.seconds = seconds

    def watch(self, died):
        """Wait until there have been enough full seconds of records."""
        deadline = time.monotonic() + PATIENCE_SECONDS + 2 * self.seconds
        while len(self._full_seconds()) < self.seconds + WARM_SECONDS:
            found = died()
            if found or time.monotonic() > deadline:
                sys.exit(f"records of {len(self._full_seconds())} seconds came, and no more: {found or 'it still runs'}")
            time.sleep(0.5)

    def _full_seconds(self):
        found = sorted({int(path.stem.partition("-")[0]) for path in self.folder.glob("*.json")})
        return found[:-1]

    def figures(self):
        """Return records a second, and the ages of which a half, and 99 of 100 records were younger, ms."""
        ages, rates = {}, []
        for second in self._full_seconds()[WARM_SECONDS : WARM_SECONDS + self.seconds]:
            rates.append(0)
            for path in self.folder.glob(f"{second}-*.json"):
                for age, count in json.loads(path.read_text()).items():
                    ages[int(age)] = ages.get(int(age), 0) + count
                    rates[-1] += count
        return statistics.median(rates), percentile(ages, 0.5), percentile(ages, 0.99)


def percentile(ages, share):
    """Return the age below which a share of the records is; they are counted by whole ms."""
    wanted = sum(ages.values()) * share
    for age in sorted(ages):
        wanted -= ages[age]
        if wanted <= 0:
            return age + 1
    return None


def pystate(folder, engine, rate, seconds, parallelism):
    run = Run(folder, seconds)
    arguments = [run.folder, rate, seconds + PATIENCE_SECONDS, parallelism]
    settings = {"execution.engine": engine, "execution.checkpointing.interval": "1 s"}
    with RunningJob(folder, JOB, arguments, parallelism, settings) as job:
        run.watch(lambda: job.ended)
        durations = [one["endToEndDuration"] for one in job.completed_checkpoints()]
    return *run.figures(), statistics.median(durations)


def flink(python, folder, rate, seconds, parallelism):
    run = Run(folder, seconds)
    environment = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [python, str(JOB), str(run.folder), str(rate), str(seconds + PATIENCE_SECONDS), str(parallelism), str(PORT)]
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            run.watch(lambda: "" if job.poll() is None else (folder / "log").read_text()[-2000:] or "it ended")
            jobs = _ask("jobs")["jobs"]
            history = _ask(f"jobs/{jobs[0]['id']}/checkpoints")["history"]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)  # with its JVM
            job.wait()
    durations = [one["end_to_end_duration"] for one in history if one["status"] == "COMPLETED"]
    return *run.figures(), statistics.median(durations) if durations else float("nan")


def _ask(path):
    with urllib.request.urlopen(f"http://localhost:{PORT}/{path}", timeout=10) as answer:
        return json.load(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--slow-rate", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--pyflink")
    given = parser.parse_args()
    sides = []
    for rate in (given.rate, given.slow_rate, 0):
        sides.append(("pystate, real-time", rate, lambda *args: pystate(args[0], "real-time", *args[1:])))
        if rate != given.slow_rate:
            sides.append(("pystate, micro-batch", rate, lambda *args: pystate(args[0], "micro-batch", *args[1:])))
        if given.pyflink and rate != given.rate:
            sides.append(("PyFlink, thread mode", rate, lambda *args: flink(given.pyflink, *args)))
    results = {}
    print(machine())
    print(f"parallelism {given.parallelism}, {given.seconds} s each, {given.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for _ in range(given.rounds):
        for name, rate, side in sides:
            with tempfile.TemporaryDirectory(prefix="real-time-") as folder:
                measured = side(Path(folder), rate, given.seconds, given.parallelism)
            results.setdefault((name, rate), []).append(measured)
            print(name, rate, measured, file=sys.stderr, flush=True)
    print("\n| | asked, records/s | counted, records/s | age p50, ms | p99, ms | checkpoint p50, ms |")
    print("|---|---|---|---|---|---|")
    for (name, rate), rows in results.items():
        counted, half, most, checkpoint = (statistics.median(column) for column in zip(*rows, strict=True))
        asked = f"{rate:,}" if rate else "all"
        print(f"| {name} | {asked} | {counted:,.0f} | {_age(half, rate)} | {_age(most, rate)} | {checkpoint:.0f} |")
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


def _age(age, rate):
    return f"{age:.0f}" if rate else "-"


if __name__ == "__main__":
    main()

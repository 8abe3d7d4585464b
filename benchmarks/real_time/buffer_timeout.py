"""What `execution.buffer-timeout.interval` costs and saves on the real-time engine: processor time, and the age of records.

    python benchmarks/real_time/buffer_timeout.py [--rates 500 5000] [--timeouts 0 5 20] [--seconds 10] [--rounds 1]

The job of `real_time.py`, `source -> map -> key_by -> count in state` with a checkpoint a second, parallelism 2.
*cores* is the processor time of all processes of the job (driver, JVM, workers, slots) for a second of the clock, between
the first full seconds and the last ones. The sides take turns. Linux only.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from real_time import JOB, PATIENCE_SECONDS, WARM_SECONDS, Run
from running_job import RunningJob

TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(home):
    """Return the processor time so far of all processes of a cluster that live."""
    total, mark = 0, f"PYSTATE_HOME={home}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        except OSError:  # it has ended
            continue
    return total / TICK


def side(folder, rate, timeout, seconds):
    """Return cores, and the ages of which a half and 99 of 100 records were younger, ms."""
    run = Run(folder, seconds)
    settings = {
        "execution.engine": "real-time",
        "execution.checkpointing.interval": "1 s",
        "execution.buffer-timeout.interval": f"{timeout} ms",
    }
    arguments = [run.folder, rate, seconds + PATIENCE_SECONDS, 2]
    with RunningJob(folder, JOB, arguments, 2, settings) as job:
        Run(folder, 0).watch(lambda: job.ended)
        began, used = time.monotonic(), processor_seconds(job.home)
        run.watch(lambda: "")
        cores = (processor_seconds(job.home) - used) / (time.monotonic() - began)
    return cores, *run.figures()[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--timeouts", type=int, nargs="+", default=[0, 5, 20])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    results = {}
    print(machine())
    print(f"{given.seconds} s each after the first {WARM_SECONDS}, {given.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for _ in range(given.rounds):
        for rate in given.rates:
            for timeout in given.timeouts:
                with tempfile.TemporaryDirectory(prefix="buffer-timeout-") as folder:
                    results.setdefault((rate, timeout), []).append(side(Path(folder), rate, timeout, given.seconds))
                print(rate, timeout, results[rate, timeout][-1], file=sys.stderr, flush=True)
    print("\n| records/s | results wait, ms | cores | age p50, ms | p99, ms |")
    print("|---|---|---|---|---|")
    for (rate, timeout), rows in results.items():
        cores, half, most = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| {rate:,} | {timeout} | {cores:.2f} | {half:.0f} | {most:.0f} |")
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

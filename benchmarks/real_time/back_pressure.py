"""Checkpoints and memory of a job whose sink is slow, with barriers that wait for records and with ones that overtake them.

    python benchmarks/real_time/back_pressure.py [--minutes 2] [--modes aligned unaligned] [--sleep-ms 1] [--text 100]
        [--parallelism 2] [--interval 5]

A source without end, a shuffle, and after it a function that sleeps for each record; a checkpoint each `--interval`
seconds. *in flight*: bytes of records that are part of a checkpoint. Memory is resident, of slots and Spark's workers
together (Python) and of Spark's JVM, looked at every 5 s but in the first minute, when everything starts.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from running_job import RunningJob

JOB = Path(__file__).with_name("back_pressure_job.py")
LOOK_EVERY_S = 5
MODES = {
    "aligned": {},
    "unaligned": {"execution.checkpointing.unaligned.enabled": "true"},
    "at-least-once": {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
}


def memory(home):
    """Return megabytes of resident memory below the job's driver: (Python, JVM)."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,rss,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 3) for line in listed.splitlines()[1:]]
    below, found = {}, {"python": 0, "java": 0}
    for pid, parent, size, command in rows:
        below.setdefault(parent, []).append((pid, int(size), command))
    ways = [pid for pid, _, _, command in rows if "pystate.runtime.driver" in command and str(home) in command]
    while ways:
        for pid, size, command in below.get(ways.pop(), []):
            found["java" if "java" in command.split()[0] else "python"] += size
            ways.append(pid)
    return found["python"] / 1024, found["java"] / 1024


def run(mode, given, folder):
    settings = {
        "execution.engine": "real-time",
        "execution.checkpointing.interval": f"{given.interval} s",
        "execution.checkpointing.timeout": "30 min",
        "web.checkpoints.history": "1000",
        **MODES[mode],
    }
    looks = []
    with RunningJob(folder, JOB, [given.sleep_ms, given.text], given.parallelism, settings) as job:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < given.minutes * 60:
            if passed > min(60, given.minutes * 30):
                looks.append(memory(job.home))
            time.sleep(LOOK_EVERY_S)
        if job.ended:
            raise SystemExit(job.ended)
        return job.completed_checkpoints(), looks


def row(mode, checkpoints, looks):
    checkpoints = sorted(checkpoints, key=lambda one: one["id"])
    durations = [one["endToEndDuration"] for one in checkpoints]
    persisted = [one["persistedData"] / 1e6 for one in checkpoints]
    python, java = zip(*looks, strict=True)
    if not checkpoints:
        return f"| {mode} | 0 | - | - | - | {spread(python)} | {spread(java)} |"
    times = f"{statistics.median(durations):,.0f} | {max(durations):,.0f}"
    return f"| {mode} | {len(checkpoints)} | {times} | {spread(persisted)} | {spread(python)} | {spread(java)} |"


def spread(values):
    return f"{values[0]:,.0f} / {values[-1]:,.0f} / {max(values):,.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["aligned", "unaligned"])
    parser.add_argument("--sleep-ms", type=float, default=1)
    parser.add_argument("--text", type=int, default=100)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--interval", type=float, default=5)
    given = parser.parse_args()
    print(machine())
    print(
        f"{given.minutes:g} minutes each, parallelism {given.parallelism}, {given.sleep_ms:g} ms a record of {given.text}"
        f" characters, a checkpoint each {given.interval:g} s, load average {os.getloadavg()[0]:.1f}\n"
    )
    print("| barriers | checkpoints | p50, ms | longest, ms | in flight, MB | Python, MB | JVM, MB |")
    print("|---|---|---|---|---|---|---|")
    for mode in given.modes:
        with tempfile.TemporaryDirectory(prefix="back-pressure-") as folder:
            print(row(mode, *run(mode, given, Path(folder))), flush=True)
    print("\nThree numbers: the first, the last, the largest.")


if __name__ == "__main__":
    main()

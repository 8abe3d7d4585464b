"""How much faster a job is with two slots than with one, by how long its function takes for a record.

    python benchmarks/slot_scaling.py [--rows N] [--work US ...] [--rounds N]

The job of `keyed_count.py`, whose function counts in a loop besides, for so many microseconds of a processor. With one slot
Spark's side of the job (reading, shuffling, Arrow) has the other core of a machine with two; so the ratio is below 2 as long
as that takes a share. Counted is the time of the epochs (`addBatch` of the query's progress), the median of the rounds.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from keyed_count import Count, Progress, machine, run_pystate, write_words

from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.runtime.driver.embedded import LocalExecutor

KEYS = 20_000


class Works(Count):
    """Counts, and takes its time."""

    def __init__(self, turns):
        self.turns = turns

    def process_element(self, value, ctx):
        for _ in range(self.turns):
            pass
        yield from super().process_element(value, ctx)


def turns_for(microseconds):
    """Return how often an empty loop turns in so long, as this machine is now."""
    turns = 1_000_000
    best = min(_loop(turns) for _ in range(5))
    return int(microseconds * 1e-6 * turns / best)


def _loop(turns):
    began = time.thread_time()
    for _ in range(turns):
        pass
    return time.thread_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--work", type=int, nargs="+", default=[0, 20, 100], help="microseconds")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration({"parallelism.default": "2"})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    progress = Progress(spark)
    try:
        write_words(root / "small", 2000, 100, 2)
        write_words(root / "all", asked.rows, KEYS, 4)
        for parallelism in (1, 2):
            run_pystate(root / "small", Works(0), parallelism)
        print(f"{machine()}, load {os.getloadavg()[0]:.1f}\n{asked.rows:,} rows, {KEYS:,} keys, medians of {asked.rounds}\n")
        print("| us a record besides | one slot, s | two, s | ratio |")
        print("|---|---|---|---|")
        for work in asked.work:
            turns, took = turns_for(work), {1: [], 2: []}
            for _ in range(asked.rounds):
                for parallelism, seconds in took.items():
                    seconds.append(progress.watch(lambda p=parallelism, t=turns: run_pystate(root / "all", Works(t), p))[0])
            one, two = (statistics.median(seconds) for seconds in took.values())
            print(f"| {work} | {one:.2f} | {two:.2f} | {one / two:.2f} |", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()

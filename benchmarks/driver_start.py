"""Seconds from `pystate run -d` to RUNNING, and to the first result, with and without the archive of Spark's classes.

    python benchmarks/driver_start.py [ROUNDS]

A word count at parallelism 1 reads one file. Both sides in turn, under one job manager that runs already. The archive is
made first where there is none (half a minute).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from keyed_count import machine

ROOT = Path(__file__).parents[1]
PYSTATE = [sys.executable, "-m", "pystate_cli"]
PROGRAM = ROOT / "tests" / "e2e" / "count_words.py"
WORD = "first"


def one(home, folder, archive):
    option = f"pystate.spark.class-data-archive={archive}"
    started = time.monotonic()
    command = [*PYSTATE, "run", "-d", "-D", option, str(PROGRAM), str(folder), "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    running = time.monotonic() - started
    job = done.stdout.split()[-1]
    log = home / "jobs" / job / "job.log"
    while WORD not in log.read_text():
        if time.monotonic() - started > 120:
            sys.exit(f"no result: {log.read_text()}")
        time.sleep(0.02)
    result = time.monotonic() - started
    subprocess.run([*PYSTATE, "cancel", job], capture_output=True, check=True)
    return running, result


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    subprocess.run([sys.executable, "-m", "pystate.driver.class_data_training"], capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        home, words = Path(folder, "home"), Path(folder, "words")
        os.environ["PYSTATE_HOME"] = str(home)
        words.mkdir()
        (words / "1.txt").write_text(f"{WORD}\n")
        subprocess.run([*PYSTATE, "cluster", "start"], capture_output=True, check=True)
        found = {"true": [], "false": []}
        try:
            one(home, words, "false")  # the first of all is slower: files come from the disk
            for _ in range(rounds):
                for archive, times in found.items():
                    times.append(one(home, words, archive))
        finally:
            subprocess.run([*PYSTATE, "cluster", "stop"], capture_output=True, check=False)
    print(machine())
    print(f"medians of {rounds} starts each, in turn\n")
    print("| archive | RUNNING, s | first result, s |\n|---|---|---|")
    for name, times in (("without", found["false"]), ("with", found["true"])):
        print(f"| {name} | {' | '.join(f'{statistics.median(column):.1f}' for column in zip(*times, strict=True))} |")
    ratios = [statistics.median(column) for column in zip(*found["true"], strict=True)]
    base = [statistics.median(column) for column in zip(*found["false"], strict=True)]
    print(f"| ratio | {' | '.join(f'{one / other:.2f}' for one, other in zip(ratios, base, strict=True))} |")


if __name__ == "__main__":
    main()

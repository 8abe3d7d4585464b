"""Seconds of a rescale, phase by phase, through the command line.

    python benchmarks/snapshots/rescale.py [ROUNDS]

`examples/word_count.py` runs at parallelism 2 over some source files, and is rescaled to 3. The phases are told by the
status of the two jobs: until the old one has FINISHED (with its savepoint, and the time in which it runs on for the driver
of its successor), until the program of the new one begins, until its slots are there (CREATED), until RUNNING. No job runs
between FINISHED and RUNNING. Then a savepoint of the new one is taken at once.
"""

import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from savepoint_resume import ROOT, command, wait_for

COLUMNS = ("until stopped", "program begins", "slots", "RUNNING", "no job runs", "whole command", "first savepoint")


def entered(home, job):
    """Return when a job has entered its states, in seconds since 1970."""
    status = json.loads((home / "jobs" / job / "status.json").read_text())
    return {state: at / 1000 for state, at in status["timestamps"].items()}


def one_round(root):
    home, watched, output = root / "home", root / "watched", root / "output"
    for folder in (home, watched):
        folder.mkdir(parents=True)
    environment = {**os.environ, "PYSTATE_HOME": str(home), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
    for path in sorted(Path(os.__file__).parent.glob("*.py"))[:40]:
        shutil.copyfile(path, watched / f"{path.name}.txt")
    job = [str(ROOT / "examples" / "word_count.py"), str(watched), str(output)]
    try:
        old = command(environment, "run", "-d", "-p", "2", *job)
        wait_for(lambda: list(output.glob("*.json")))
        begun = time.time()
        new = command(environment, "rescale", old, "-p", "3")
        ended = time.time()
        command(environment, "savepoint", new)
        saved = time.time()
        stopped, states = entered(home, old)["FINISHED"], entered(home, new)
        command(environment, "cancel", new)
        points = [begun, stopped, states["INITIALIZING"], states["CREATED"], states["RUNNING"]]
        phases = [after - before for before, after in zip(points, points[1:], strict=False)]
        return [*phases, states["RUNNING"] - stopped, ended - begun, saved - ended]
    finally:
        with contextlib.suppress(OSError):
            os.kill(json.loads((home / "jobmanager.json").read_text())["pid"], 15)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        results = [one_round(Path(root).resolve() / str(number)) for number in range(rounds)]
    print(machine())
    print(f"median of {rounds}, s, load average {os.getloadavg()[0]:.0f}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    print("| " + " | ".join(f"{statistics.median(column):.1f}" for column in zip(*results, strict=True)) + " |")


if __name__ == "__main__":
    main()

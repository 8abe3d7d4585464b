"""Seconds from `pystate cancel -s` to the resumed job's first output, through the command line.

    python benchmarks/snapshots/savepoint_resume.py [ROUNDS]

`examples/word_count.py` runs at parallelism 2 over some source files; it is cancelled with a savepoint and resumed at
parallelism 3, with a new file waiting. The clock starts when `cancel -s` is typed and stops when the first rows of the
resumed job are in the sink.
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

ROOT = Path(__file__).parents[2]
PYSTATE = [sys.executable, "-m", "pystate_cli"]


def command(environment, *arguments):
    done = subprocess.run([*PYSTATE, *map(str, arguments)], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("timed out")
        time.sleep(0.01)


def one_round(root):
    home, watched, output = root / "home", root / "watched", root / "output"
    for folder in (home, watched):
        folder.mkdir(parents=True)
    environment = {**os.environ, "PYSTATE_HOME": str(home), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
    job = [str(ROOT / "examples" / "word_count.py"), str(watched), str(output)]
    for path in sorted(Path(os.__file__).parent.glob("*.py"))[:40]:
        shutil.copyfile(path, watched / f"{path.name}.txt")
    try:
        first = command(environment, "run", "-d", "-p", "2", *job)
        wait_for(lambda: list(output.glob("*.json")))
        before = set(output.glob("*.json"))
        started = time.perf_counter()
        path = command(environment, "cancel", "-s", first)
        cancelled = time.perf_counter()
        before |= set(output.glob("*.json"))
        (watched / "new.txt").write_text("hello world\n")
        second = command(environment, "run", "-d", "-p", "3", "-s", path, *job)
        running = time.perf_counter()
        wait_for(lambda: set(output.glob("*.json")) - before)
        ended = time.perf_counter()
        command(environment, "cancel", second)
        return cancelled - started, running - cancelled, ended - running, ended - started
    finally:
        with contextlib.suppress(OSError):
            os.kill(json.loads((home / "jobmanager.json").read_text())["pid"], 15)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    results = []
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        for number in range(rounds):
            results.append(one_round(Path(root).resolve() / str(number)))
    print(machine())
    print(f"median of {rounds}\n")
    print("| cancel -s, s | run -d -s until RUNNING, s | until the first output, s | in all, s |")
    print("|---|---|---|---|")
    print("| " + " | ".join(f"{statistics.median(column):.1f}" for column in zip(*results, strict=True)) + " |")


if __name__ == "__main__":
    main()

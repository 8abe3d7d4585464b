"""How long `pystate list` takes, beside what it can't be faster than.

    python benchmarks/dashboard/list_latency.py [--rounds N]

Sides in turn, the median of the rounds: processor time (user and system) of the process, which other load disturbs least,
and wall time. *python*: the bare interpreter, `python -c pass`. *typer*: that and `import typer`, without which no option
is read. *http*: the bare interpreter and `import http.client, json`, without which nothing is asked. *list*: `pystate list`
in a pipe, against a job manager of its own without jobs. Run it with the Python of an installation as users have it: without
the development's dependencies, not editable. Bytecode is written in a warm-up, as pip does it at the installation.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pystate

COMMAND = (sys.executable, "-m", "pystate_cli")
SIDES = {
    "python": (sys.executable, "-c", "pass"),
    "typer": (sys.executable, "-c", "import typer"),
    "http": (sys.executable, "-c", "import http.client, json"),
    "list": (*COMMAND, "list"),
}


def measured(words, environment):
    """Return wall and processor time of a command, in ms."""
    started = time.perf_counter()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return (time.perf_counter() - started) * 1000, (usage.ru_utime + usage.ru_stime) * 1000


def run(rounds, folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSTATE"))}
    environment |= {"PYSTATE_HOME": str(folder / "home"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    subprocess.run((*COMMAND, "cluster", "start", "-D", "rest.port=0"), env=environment, check=True, cwd=folder)
    try:
        for words in SIDES.values():
            measured(words, environment)
        times = {name: [] for name in SIDES}
        for _ in range(rounds):
            for name, words in SIDES.items():
                times[name].append(measured(words, environment))
        return times
    finally:
        subprocess.run((*COMMAND, "cluster", "stop"), env=environment, check=True, cwd=folder)


def report(times):
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"pystate {pystate.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, load average {load}\n"
    )
    print("| side | processor time, ms | least | over python | over typer | wall time, ms | least |")
    print("|---|---|---|---|---|---|---|")
    for name, pairs in times.items():
        wall, processor = zip(*pairs, strict=True)
        over = [
            statistics.median(each / other for each, (_, other) in zip(processor, times[side], strict=True))
            for side in ("python", "typer")
        ]
        print(
            f"| {name} | {statistics.median(processor):.0f} | {min(processor):.0f} | {over[0]:.1f} | {over[1]:.2f} "
            f"| {statistics.median(wall):.0f} | {min(wall):.0f} |"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        report(run(rounds, Path(folder)))


if __name__ == "__main__":
    main()

"""Seconds from `pystate run -d` to RUNNING and to the first result: plain, with the archive of classes, with a spare driver.

    python benchmarks/recovery/driver_start.py [ROUNDS] [PARALLELISM]

A word count reads one file. All sides in turn, each under a job manager that runs; one keeps a spare driver.
The archive is made first where there is none (half a minute). What a spare driver costs is told below.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

from pystate.common.files.home import PystateHome
from pystate.runtime.rest.cluster_messages import SpareDriversInfo
from pystate_cli.client.job_manager import find_job_manager

ROOT = Path(__file__).parents[2]
PYSTATE = [sys.executable, "-m", "pystate_cli"]
PROGRAM = ROOT / "tests" / "e2e" / "commands" / "count_words.py"
WORD = "first"
IDLE_SECONDS = 20
ARCHIVE = "pystate.spark.class-data-archive"


class Side:
    """Starts of one kind, under a job manager of its own."""

    def __init__(self, name, root, words, parallelism, *options, spares=0):
        self.name = name
        self.home = root / name.replace(" ", "-")
        self.environment = {**os.environ, "PYSTATE_HOME": str(self.home)}
        self.words = words
        self.run = ["run", "-d", "-p", parallelism, *options, str(PROGRAM), str(words), "100"]
        self.spares = spares
        self.times, self.memory, self.idle = [], [], []
        self.call("cluster", "start", "-D", f"jobmanager.spare-drivers={spares}")

    def call(self, *words):
        command = [*PYSTATE, *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True).stdout

    def spare(self):
        """Return the spare driver once it is ready."""
        client = find_job_manager(PystateHome(self.home), None, 10)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            found = client.get("/pystate/spare-drivers", SpareDriversInfo).spare_drivers
            if found and found[0].state == "READY":
                return found[0]
            time.sleep(0.1)
        sys.exit(f"no spare driver gets ready: {(self.home / 'jobmanager.log').read_text()}")

    def once(self):
        if self.spares and self.times:
            spare = self.spare()
            self.memory.append(spare.memory)
            before = processor_seconds(spare.pid)
            time.sleep(IDLE_SECONDS)
            self.idle.append((processor_seconds(spare.pid) - before) / IDLE_SECONDS)
        started = time.monotonic()
        job = self.call(*self.run).split()[-1]
        running = time.monotonic() - started
        log = self.home / "jobs" / job / "job.log"
        while WORD not in log.read_text():
            if time.monotonic() - started > 120:
                sys.exit(f"no result: {log.read_text()}")
            time.sleep(0.02)
        self.times.append((running, time.monotonic() - started))
        self.call("cancel", job)

    def close(self):
        subprocess.run([*PYSTATE, "cluster", "stop"], env=self.environment, capture_output=True, check=False)


def processor_seconds(session):
    """Return the processor time that the processes of a session have taken."""
    ticks = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) == session:
                    fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                    ticks += int(fields[11]) + int(fields[12])
            except OSError:
                continue
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    rounds, parallelism = (int(value) for value in (sys.argv[1:] + ["5", "1"][len(sys.argv) - 1 :]))
    subprocess.run([sys.executable, "-m", "pystate.ops.warm_start.class_data_training"], capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder, "words")
        words.mkdir()
        (words / "1.txt").write_text(f"{WORD}\n")
        common = (Path(folder), words, str(parallelism))
        sides = [
            Side("without archive", *common, "-D", f"{ARCHIVE}=false"),
            Side("with archive", *common),
            Side("spare driver", *common, spares=1),
        ]
        try:
            for _ in range(rounds + 1):
                for side in sides:
                    side.once()
        finally:
            for side in sides:
                side.close()
    print(machine())
    print(f"medians of {rounds} starts each, in turn, parallelism {parallelism}, load average {os.getloadavg()[1]:.1f}\n")
    print("| | RUNNING, s | first result, s |\n|---|---|---|")
    for side in sides:  # the first of all is slower: files come from the disk, and there is no spare yet
        print(f"| {side.name} | {' | '.join(f'{statistics.median(c):.1f}' for c in zip(*side.times[1:], strict=True))} |")
    spare = sides[-1]
    print(f"\nA spare driver that waits: {statistics.median(spare.memory) / 1e6:.0f} MB,", end=" ")
    print(f"{statistics.median(spare.idle):.1%} of a processor")


if __name__ == "__main__":
    main()

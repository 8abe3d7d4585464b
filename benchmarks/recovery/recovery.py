"""Seconds from a kill to processing again, per kind of kill.

    python benchmarks/recovery/recovery.py [ROUNDS] [--spare-drivers N] [--only WORD ...]

A word count at parallelism 2 takes a checkpoint every 500 ms. A process is killed with SIGKILL, a file with a new word is
put into the source's folder, and the clock stops when that word is in the output. The restart delay is 0; folders are
polled every 100 ms. With spare drivers, each kill finds one that is ready. Linux only.
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
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from processes import children

from pystate.common.files.home import PystateHome
from pystate.runtime.rest.cluster_messages import SpareDriversInfo
from pystate_cli.client.job_manager import find_job_manager

ROOT = Path(__file__).parents[2]
PYSTATE = [sys.executable, "-m", "pystate_cli"]
SLOT_THREADS = 4
"""A slot listens, beats and uploads on threads of its own; a worker of the micro-batch has fewer."""

PROGRAM = ROOT / "tests" / "e2e" / "commands" / "count_words.py"
OPTIONS = {
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for(condition):
    deadline = time.monotonic() + 300
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("timed out")
        time.sleep(0.01)


class Job:
    """The word count, under a job manager of its own."""

    def __init__(self, root, spare_drivers, **others):
        self.spare_drivers = spare_drivers
        self.home = root / "home"
        self.watched = root / "watched"
        self.watched.mkdir()
        self.environment = {**os.environ, "PYSTATE_HOME": str(self.home), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
        self.start_job_manager()
        wait_for((self.home / "jobmanager.json").exists)
        options = [word for key, value in (OPTIONS | others).items() for word in ("-D", f"{key}={value}")]
        command = [*PYSTATE, "run", "-d", "-p", "2", *options, str(PROGRAM), str(self.watched), "100"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        self.directory = self.home / "jobs" / done.stdout.strip()
        self.words = 0

    def process_a_word(self):
        self.words += 1
        word = f"word-{self.words}"
        part = self.watched.with_name("part")
        part.write_text(word)
        part.rename(self.watched / f"{word}.txt")
        wait_for(lambda: f"('{word}', 1)" in (self.directory / "job.log").read_text())

    def settle(self):
        """Process a word and let a checkpoint pass, so that each kill meets a job at work."""
        self.process_a_word()
        time.sleep(2)
        if self.spare_drivers:
            wait_for(self.has_spare)

    def has_spare(self):
        client = find_job_manager(PystateHome(self.home), None, 30)
        return any(one.state == "READY" for one in client.get("/pystate/spare-drivers", SpareDriversInfo).spare_drivers)

    @property
    def driver(self):
        return json.loads((self.directory / "driver.json").read_text())["pid"]

    @property
    def job_manager(self):
        return json.loads((self.home / "jobmanager.json").read_text())["pid"]

    @property
    def jvm(self):
        return next(pid for pid in children(self.driver) if "java" in os.readlink(f"/proc/{pid}/exe"))

    @property
    def workers(self):
        """The children of pyspark's daemon: (slots, others)."""
        found = [pid for daemon in children(self.jvm) for pid in children(daemon)]
        slots = [pid for pid in found if len(os.listdir(f"/proc/{pid}/task")) >= SLOT_THREADS]
        return slots, [pid for pid in found if pid not in slots]

    def start_job_manager(self):
        command = [sys.executable, "-m", "pystate.ops.jobmanager", "--home", str(self.home), "--port", "0"]
        command += ["-D", f"jobmanager.spare-drivers={self.spare_drivers}"]
        self.home.mkdir(exist_ok=True, mode=0o700)
        with (self.home / "jobmanager.log").open("ab") as log:
            subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=self.environment)

    def close(self):
        with contextlib.suppress(OSError):
            kill([self.job_manager])
            kill([self.driver])


def nothing(job):
    del job


def a_worker(job):
    kill(job.workers[1])


def a_slot(job):
    kill(job.workers[0][:1])


def the_daemon(job):
    kill(children(job.jvm))


def the_jvm(job):
    kill([job.jvm])


def the_driver(job):
    kill([job.driver])


def the_job_manager(job):
    kill([job.job_manager])
    job.start_job_manager()


def driver_and_job_manager(job):
    kill([job.job_manager, job.driver])
    job.start_job_manager()


KINDS = [
    ("nothing, for comparison", nothing),
    ("the Python workers of the micro-batch", a_worker),
    ("a slot", a_slot),
    ("pyspark.daemon, with all slots and workers", the_daemon),
    ("the driver's JVM", the_jvm),
    ("the driver", the_driver),
    ("the job manager, started again at once", the_job_manager),
    ("job manager and driver, the first started again at once", driver_and_job_manager),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("--spare-drivers", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[""], help="words of the kinds of kills")
    asked = parser.parse_args()
    rounds, kinds = asked.rounds, [kind for kind in KINDS if any(word in kind[0] for word in asked.only)]
    results = {name: [] for name, _ in kinds}
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        job = Job(Path(root).resolve(), asked.spare_drivers)
        try:
            for _ in range(rounds):
                for name, strike in kinds:
                    job.settle()
                    started = time.perf_counter()
                    strike(job)
                    job.process_a_word()
                    results[name].append(time.perf_counter() - started)
        finally:
            job.close()
            time.sleep(5)  # what is left ends by itself
    print(machine())
    print(f"{rounds} kills of each kind, {asked.spare_drivers} spare drivers, load average {os.getloadavg()[1]:.1f}\n")
    print("| killed with SIGKILL | median s | worst s |")
    print("|---|---|---|")
    for name, seconds in results.items():
        print(f"| {name} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |")


if __name__ == "__main__":
    main()

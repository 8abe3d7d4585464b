"""A job manager with many jobs, whose slots and storage are simulated: checkpoints, REST and restarts of all at once.

    python benchmarks/many_jobs.py [--jobs 100] [--slots 10] [--files 160] [--interval 10] [--seconds 60]

The job manager is a real one in a process of its own, and each job has a driver process with the real coordinator, real
files, real `_metadata` and a real control endpoint. What is simulated: Spark, and slots, which are threads of the driver and
acknowledge an incremental handle each of FILES files of 64 MB after 0.05 to 0.5 s (that many bytes are never written). 100
jobs of 10 slots with 160 files are 10 TB of state. Reported, times as median / 95 % / longest:

- *start*: from the first submission until all jobs run;
- *checkpoints*: their durations as REST tells them, and `_metadata`;
- *REST*: the list, the overview, a job and its checkpoints, asked in turn by one client;
- *storm*: all drivers are killed at once; until all jobs run again, and until each has completed a checkpoint of its own;
- the processor time of the job manager and of all drivers in each phase.
"""

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import coordinator as alone
from keyed_count import machine
from processes import processor_s

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.key_column import KeyColumn
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory, SparkSource
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec
from tests.ops.jobmanager import fake_driver
from tests.ops.jobmanager.harness import ManagerProcess

STORAGE_S = 0.05, 0.5
QUESTIONS = {
    "list": "/jobs/overview",
    "overview": "/overview",
    "a job": "/jobs/{}",
    "its checkpoints": "/jobs/{}/checkpoints",
}


class Slots:
    """The slots of a job: each acknowledges when its storage has answered."""

    def __init__(self, coordinator, subtasks, files):
        self.coordinator, self.subtasks, self.files = coordinator, subtasks, files

    def notify(self, checkpoint_id, *, completed):
        told = Future()
        told.set_result(True)
        return told

    def call_all(self, op, arguments, answered=None, bounded=None):
        barrier = CheckpointBarrier.from_plain(arguments(0)["barrier"])
        threading.Thread(target=self.acknowledge_all, args=(barrier,), daemon=True).start()

    def acknowledge_all(self, barrier):
        began = time.monotonic()
        for index, after in enumerate(sorted(random.uniform(*STORAGE_S) for _ in range(self.subtasks))):
            time.sleep(max(0.0, began + after - time.monotonic()))
            part = alone.acknowledgement(barrier, index, self.subtasks, self.files)
            answer_slot_call(self.coordinator, "acknowledge", {"parts": [part]})


class SimulatedDriver(fake_driver.FakeDriver):
    """A driver with a coordinator, without Spark."""

    def move(self, state, **changes):
        if state == "CREATED":
            self.coordinator = self.restored()
        super().move(state, **changes)
        if state == "RUNNING":
            directory = SparkCheckpointDirectory(self.spark, [SparkSource("source", 0, 0)])
            slots = Slots(self.coordinator, self.status["parallelism"], int(self.option("--files")))
            self.epochs.attempt_started(slots, directory, -1, -1, print)

    def restored(self):
        slots, configuration = self.status["parallelism"], Configuration(self.submission["configuration"])
        self.spark = self.directory.path / "spark"
        for log in ("offsets", "commits"):
            (self.spark / log).mkdir(parents=True, exist_ok=True)
        (self.spark / "metadata").write_text('{"id":"query"}')
        job = JobDescription(self.job_id, self.status["name"], slots, {}, "0", "0")
        coordinator = CheckpointCoordinator(job, configuration, self.directory.checkpoints)
        task = TaskSpec(
            uid="count",
            name="count",
            vertex_id="a" * 32,
            parallelism=slots,
            max_parallelism=alone.MAX_PARALLELISM,
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
            head=OperatorSpec("count", "count", OperatorKind.MAP, lambda word: word),
        )
        self.epochs = EpochCoordinator(coordinator, EpochNumbers(self.directory.path / "epochs.json"))
        self.epochs.describe([task])
        coordinator.recover(print)
        coordinator.start([task], None)
        return coordinator

    def told_of_checkpoints(self, op, request):
        if op == "checkpoints":
            return self.coordinator.statistics(request.get("limit"), request.get("before"))
        if op == "checkpoint_details":
            return self.coordinator.statistics_of(int(request["checkpoint_id"]))
        if op == "checkpoint_subtasks":
            return self.coordinator.statistics_of_subtasks(int(request["checkpoint_id"]), str(request["vertex_id"]))
        return super().told_of_checkpoints(op, request)


def spread(values):
    ordered = sorted(values)
    return f"{statistics.median(ordered):.3f} / {ordered[int(len(ordered) * 0.95)]:.3f} / {ordered[-1]:.3f}"


def spent(pid):
    """Return the seconds of processor time of a process; 0 for one that is gone."""
    with contextlib.suppress(OSError):
        return processor_s([pid])
    return 0.0


class Cluster:
    def __init__(self, root, asked):
        self.root, self.asked = root, asked
        self.manager = ManagerProcess(root / "home", driver=(__file__, "--driver"))
        self.manager.popen = subprocess.Popen
        self.latencies = {name: [] for name in QUESTIONS}
        self.jobs = []

    def ask(self, path):
        status, answer = self.manager.request("GET", path)
        assert status == 200, answer
        return answer

    def drivers(self):
        return [found.pid for found in DriverLauncher(self.manager.home).find_running().values()]

    def used(self):
        return spent(self.manager.process.pid), sum(map(spent, self.drivers()))

    def questions(self):
        """Ask each question once, and return the states of all jobs."""
        job = random.choice(self.jobs)
        for name, path in QUESTIONS.items():
            began = time.perf_counter()
            answer = self.ask(path.format(job))
            self.latencies[name].append(time.perf_counter() - began)
            if name == "list":
                states = [one["state"] for one in answer["jobs"]]
        return states

    def completed(self):
        return [self.ask(f"/jobs/{job}/checkpoints")["counts"]["completed"] for job in self.jobs]

    def wait_until_running(self, seconds=1800):
        deadline = time.monotonic() + seconds
        while self.questions().count("RUNNING") < len(self.jobs):
            assert time.monotonic() < deadline, "not all jobs run"
            time.sleep(0.2)

    def report(self, phase, wall, before, after):
        manager, drivers = (later - earlier for later, earlier in zip(after, before, strict=True))
        print(f"\n{phase}: {wall:.1f} s, processor: job manager {manager:.1f} s, drivers {drivers:.1f} s")
        print("| REST, s | asked | median / 95 % / longest |\n|---|---|---|")
        for name, values in self.latencies.items():
            if values:
                print(f"| {name} | {len(values)} | {spread(values)} |", flush=True)
            values.clear()

    def run(self):
        asked = self.asked
        self.manager.start()
        configuration = {
            "execution.checkpointing.dir": str(self.root / "checkpoints"),
            "execution.checkpointing.interval": f"{asked.interval} s",
            "execution.checkpointing.incremental": "true",
            "state.backend.type": "rocksdb",
        }
        words = ["--restart", "1000", "100", "--files", str(asked.files)]
        began = time.monotonic()
        for _ in range(asked.jobs):
            self.jobs.append(self.manager.submit(*words, parallelism=asked.slots, configuration=configuration))
        self.wait_until_running()
        self.report("start", time.monotonic() - began, (0.0, 0.0), self.used())

        before, began = self.used(), time.monotonic()
        while time.monotonic() < began + asked.seconds:
            self.questions()
            time.sleep(0.2)
        self.report("running", time.monotonic() - began, before, self.used())
        history = [one for job in self.jobs for one in self.ask(f"/jobs/{job}/checkpoints")["history"]]
        durations = [one["end_to_end_duration"] / 1000 for one in history if one["status"] == "COMPLETED"]
        failed = sum(one["status"] == "FAILED" for one in history)
        sizes = [path.stat().st_size for path in (self.root / "checkpoints").rglob("_metadata")]
        print(f"\ncheckpoints: {len(durations)} completed, {failed} failed, {spread(durations)} s")
        print(f"_metadata: {max(sizes) / 1e6:.2f} MB each, {len(sizes)} retained", flush=True)

        pids = self.drivers()
        before, began = (spent(self.manager.process.pid), 0.0), time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        while set(pids) & set(self.drivers()):
            time.sleep(0.1)
        time.sleep(1)  # so that the job manager has heard of each
        self.wait_until_running()
        ran = time.monotonic() - began
        counts = self.completed()
        while any(now <= then for now, then in zip(self.completed(), counts, strict=True)):
            self.questions()
            time.sleep(1)
        self.report(f"storm (all run again after {ran:.1f} s)", time.monotonic() - began, before, self.used())


def main():
    if sys.argv[1:2] == ["--driver"]:
        del sys.argv[1]
        fake_driver.FakeDriver = SimulatedDriver
        sys.exit(fake_driver.main())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--slots", type=int, default=10)
    parser.add_argument("--files", type=int, default=160)
    parser.add_argument("--interval", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    asked = parser.parse_args()
    state = asked.jobs * asked.slots * asked.files * alone.FILE_BYTES / 1e12
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}; {asked.jobs} jobs of {asked.slots} slots, {state:.1f} TB")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), asked)
        try:
            cluster.run()
        finally:
            cluster.manager.stop()


if __name__ == "__main__":
    main()

"""The driver alone with many slots: connections, heartbeats with metrics, calls to all of them, checkpoints.

    python benchmarks/many_slots.py [--slots 10 100 1000] [--tasks 2] [--processes 4] [--seconds 10]

Real connections of the control protocol between the pool and the coordinator of a driver, and slots that are threads of
a few processes: they register, beat each second with the metrics of their tasks, answer, and acknowledge checkpoints. No
Spark, no records. Figures are the driver's: processor time of its process, threads, descriptors, resident memory.

- *registered*: from the first connection to the last slot's.
- *packed*: what is deployed to all slots made bytes.
- *idle*: processor time a second while nothing but heartbeats comes.
- *a call*: to all slots, such as the end of an epoch. Heartbeats pause here and in a checkpoint: *idle* says what they cost.
- *a checkpoint*: from its trigger to its completion, each subtask with one handle.
- *metrics*: those of all subtasks gathered and made JSON, as for a scrape.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import coordinator as alone
from keyed_count import machine

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.job_status import JobStatus
from pystate.common.processes.control import ControlClient, ControlServer
from pystate.common.processes.garbage_collector import YOUNG_OBJECTS_OF_DRIVER, scan_seldom
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.metrics.slot_metrics import SlotMetrics
from pystate.core.metrics.store import SubtaskMetricStore
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.operator_state import TaskState
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory, SparkSource
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.slot.gateway import CoordinatorGateway
from pystate.runtime.slot.metrics.task_metrics import TaskMetrics
from pystate.runtime.slot.process import Deployment

ROUNDS = 5


class Slot:
    """One of the slots of a process."""

    def __init__(self, index, slots, uids, address, secret):
        self.uids = uids
        self.identity = {"slot": index, "attempt": 0}
        self.slots, self.secret, self.address = slots, secret, address
        self.server = ControlServer(secret, self.handle)
        self.server.start()
        self.gateway = CoordinatorGateway(lambda: ControlClient(*address, secret), self.identity)
        self.heartbeats, self.watchdog = (ControlClient(*address, secret) for _ in range(2))
        control = [self.server.host, self.server.port]
        self.gateway.call("register", pid=os.getpid(), task_attempt=0, control=control, data="/socket")
        self.watchdog.call("watchdog", **self.identity)

    def handle(self, request):
        if request["op"] == "snapshot":
            checkpoint_id = request["barrier"]["id" if "id" in request["barrier"] else "checkpoint_id"]
            threading.Thread(target=self.acknowledge, args=(checkpoint_id,)).start()
        return True if request["op"] == "notify" else None

    def acknowledge(self, checkpoint_id):
        for uid in self.uids:
            state, metrics = alone.acknowledged(self.identity["slot"], self.slots)
            state = TaskState({uid: state.operators["count"]})
            self.gateway.acknowledge(checkpoint_id, uid, self.identity["slot"], state, metrics)

    def beat(self, metrics):
        self.heartbeats.call("heartbeat", **self.identity, restored=0, metrics=metrics)


def uids_of(tasks):
    return [f"task-{number}" for number in range(tasks)]


def report(index, uids):
    """Return the metrics of a slot's subtasks."""
    told = {}
    for uid in uids:
        told[uid] = SubtaskMetricStore(index, "machine", TaskMetrics(task(uid, 1)).collect(time.monotonic())).packed()
    return told


def follow(beats):
    """Let heartbeats pause and go on, as the driver's process says."""
    for line in sys.stdin:
        (beats.set if line == "beat\n" else beats.clear)()


def run_slots(first, count, slots, tasks, host, port, secret):
    uids = uids_of(tasks)
    held = [Slot(index, slots, uids, (host, port), secret.encode()) for index in range(first, first + count)]
    reports = [report(index, uids) for index in range(first, first + count)]
    beats = threading.Event()
    beats.set()
    threading.Thread(target=follow, args=(beats,), daemon=True).start()
    print("ready", flush=True)
    while True:
        beats.wait()
        started = time.monotonic()
        for number, (slot, metrics) in enumerate(zip(held, reports, strict=True)):
            try:
                slot.beat(metrics)
            except Exception:  # the driver is done
                os._exit(0)
            time.sleep(max(0.0, started + (number + 1) / count - time.monotonic()))


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


def task(uid, slots):
    return TaskSpec(
        uid=uid,
        name=uid,
        vertex_id=f"{int(uid[5:]):032x}",
        parallelism=slots,
        max_parallelism=alone.MAX_PARALLELISM,
        inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
        head=OperatorSpec(uid, uid, OperatorKind.PROCESS, Count(), output_type=Types.STRING()),
    )


class Driver:
    """What a driver does with what slots say."""

    def __init__(self):
        self.coordinator = None
        self.metrics = SlotMetrics()
        self.metrics.begin_attempt(0)

    def handle_slot_call(self, op, arguments):
        return answer_slot_call(self.coordinator, op, arguments)

    def slot_metrics(self, slot, told):
        self.metrics.report(0, slot, told)

    def slot_lost(self, slot, reason):
        sys.exit(f"slot {slot}: {reason}")

    def slot_died(self, slot, cause):
        sys.exit(f"slot {slot}: {cause}")

    def slots_hang(self, slots, call, timeout_s):
        sys.exit(f"{slots} hang in {call}")


def spent(action):
    """Return the seconds of the wall and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def median_spent(action):
    return [statistics.median(column) for column in zip(*(spent(action) for _ in range(ROUNDS)), strict=True)]


def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def say(children, word):
    for child in children:
        child.stdin.write(f"{word}\n".encode())
        child.stdin.flush()
    time.sleep(2)  # a round of heartbeats may be under way


def coordinator_of(root, slots, uids, driver, pool):
    spark = root / "spark"
    for log in ("offsets", "commits"):
        (spark / log).mkdir(parents=True)
    (spark / "metadata").write_text('{"id":"query"}')
    configuration = Configuration({"execution.checkpointing.dir": str(root / "checkpoints")})
    job = JobDescription("a" * 32, "job", slots, {}, "0", "0")
    coordinator = driver.coordinator = CheckpointCoordinator(job, configuration, root / "statistics.json")
    tasks = [task(uid, slots) for uid in uids]
    epochs = EpochCoordinator(coordinator, EpochNumbers(root / "epochs.json"))
    epochs.describe(tasks)
    coordinator.start(tasks, None)
    epochs.attempt_started(pool, SparkCheckpointDirectory(spark, [SparkSource("source", 0, 0)]), -1, -1, print)
    return coordinator


def measured(slots, count, processes, seconds, root):
    uids = uids_of(count)
    secret, driver, before = b"s" * 64, Driver(), resident_mb()
    pool = SlotPool("a" * 32, 0, slots, secret, driver, call_timeout_s=600)
    pool.start()
    host, port = pool.description.coordinator
    per_process = -(-slots // processes)
    wall, processor = time.perf_counter(), time.process_time()
    children = [
        subprocess.Popen(
            [
                sys.executable,
                __file__,
                "--part",
                str(first),
                str(min(per_process, slots - first)),
                str(slots),
                str(count),
                host,
                str(port),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for first in range(0, slots, per_process)
    ]
    pool.wait_registered(600)
    registered = time.perf_counter() - wall, time.process_time() - processor
    for child in children:
        child.stdout.readline()
    tasks = [task(uid, slots) for uid in uids]
    deployed = spent(lambda: pool.deploy([Deployment({"job_id": "a" * 32}, tasks, {}) for _ in range(slots)]))
    time.sleep(3)
    processor = time.process_time()
    for _ in range(int(seconds * 10)):  # as the attempt's thread does
        time.sleep(0.1)
        pool.silent_slot()
    idle = (time.process_time() - processor) / seconds
    say(children, "pause")
    call = median_spent(lambda: pool.call_all("finish_epoch", lambda _: {"epoch": 1, "barrier": None}, bounded="finish"))
    scan_seldom(YOUNG_OBJECTS_OF_DRIVER)  # as a driver does
    coordinator = coordinator_of(root, slots, uids, driver, pool)
    checkpoint = median_spent(lambda: coordinator.trigger_checkpoint().result(600))
    say(children, "beat")
    size = max(path.stat().st_size for path in (root / "checkpoints").rglob("_metadata"))

    def scrape():
        json.dumps([driver.metrics.of(uid, index).to_plain() for uid in uids for index in range(slots)])

    scraped = median_spent(scrape)
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    memory = resident_mb() - before
    coordinator.close(JobStatus.CANCELED)
    for child in children:
        child.kill()
    figures = [registered, deployed, (idle,), call, checkpoint, scraped]
    cells = [" / ".join(f"{value:.2f}" if value >= 0.1 else f"{value:.3f}" for value in pair) for pair in figures]
    print(
        f"| {slots:,} | {count} | {' | '.join(cells)} | {size / 1e6:.2f} | {threads:,} | {descriptors:,} | {memory:.0f} |",
        flush=True,
    )
    os._exit(0)  # its threads wait in connections


def main():
    if sys.argv[1:2] == ["--part"]:
        first, count, slots, tasks, host, port = sys.argv[2:]
        run_slots(int(first), int(count), int(slots), int(tasks), host, int(port), "s" * 64)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        with tempfile.TemporaryDirectory() as folder:
            measured(asked.slots[0], asked.tasks, asked.processes, asked.seconds, Path(folder))
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}\n\nseconds of the wall / of the driver's processor\n")
    print(
        "| slots | tasks | registered | deployed | idle, a second | a call | a checkpoint | metrics | _metadata, MB "
        "| threads | descriptors | memory, MB |\n" + "|---" * 12 + "|",
        flush=True,
    )
    for slots in asked.slots:
        words = [
            "--one",
            "--slots",
            str(slots),
            "--tasks",
            str(asked.tasks),
            "--processes",
            str(asked.processes),
            "--seconds",
            str(asked.seconds),
        ]
        subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()

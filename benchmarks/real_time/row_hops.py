"""Where a row's time goes on its way from Spark through a slot and back, by processor time.

    python benchmarks/real_time/row_hops.py [--rows 400000] [--keys 100000] [--rounds 2] [--backend hashmap] [--job sum]
        [--py-spy PROGRAM] [--flame FOLDER]

Queries of one session, in turn, each with one hop more than the one before it, over the same CSV files into the `noop`
sink: Spark reads; and shuffles; and sends rows through an identity `mapInArrow`; and at last a job of pystate, with a
`ValueState` of a LONG and a DOUBLE per key and one result per row. Counted is the processor time of the JVM's threads (by
what they do), of Spark's Python workers and of the slots; a difference of two queries is a hop.

With `--py-spy` (a py-spy that is installed somewhere) the Python processes of the last run are sampled, and their samples
told apart by the innermost frame that says what is done; `--flame` writes the stacks there. Linux only.
"""

import argparse
import collections
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from processes import children
from pyspark.sql import functions as F
from soak import inodes, listening_inodes

from pystate.common import Row, Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.runtime.driver.embedded import LocalExecutor

TICK = os.sysconf("SC_CLK_TCK")
PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
RESULT = Types.ROW_NAMED(["word", "count", "sum"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
SCHEMA = "word STRING, number DOUBLE"
JVM_THREADS = [
    ("Executor task", "JVM: tasks"),
    ("C1 Comp", "JVM: compiler"),
    ("C2 Comp", "JVM: compiler"),
    ("G", "JVM: collector"),
]
# what the innermost frame with one of these words says; the first that fits a frame counts
KINDS = [
    ("function", r"row_hops\.py"),
    ("decode", r"\b(decode\w*|_decode\w*|to_pylist|rows_of|keys_of|_keys)\b|key_column"),
    ("encode", r"\b(encode\w*|_encode\w*)\b"),
    ("Arrow's frames", r"serialize|read_record_batch|read_schema|ipc\.py|serializers\.py|LevelWriter|unwrap|wrap|level\.py"),
    ("state", r"pystate/state/|pystate/api/state"),
    ("socket", r"\b(recv_bytes|send_bytes|_recv|_send|recv|read_int|readinto|write_int)\b|connection\.py"),
    ("imports", r"importlib|zipimport"),
    ("pickle", r"cloudpickle|pickle"),
    ("calling functions", r"pystate/slot"),
    ("Spark's worker", r"pyspark/"),
]


class Totals(KeyedProcessFunction):
    def open(self, runtime_context):
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", PAIR))

    def process_element(self, value, ctx):
        count, total = self.totals.value() or (0, 0.0)
        count, total = count + 1, total + value.number
        self.totals.update((count, total))
        yield Row(word=value.word, count=count, sum=total)


def write_rows(folder, rows, keys, files, suffix="csv"):
    folder.mkdir()
    for number in range(files):
        lines = (f"key-{(i * 7919) % keys},{i % 1000 / 8}" for i in range(number, rows, files))
        (folder / f"{number:03}.{suffix}").write_text("\n".join(lines) + "\n")


def processor_times():
    """Return ticks of processor time by what they were for; of this process's JVM and all below it."""
    times = collections.Counter()
    (jvm,) = [pid for pid in children(os.getpid()) if "java" in os.readlink(f"/proc/{pid}/exe")]
    for task in Path(f"/proc/{jvm}/task").iterdir():
        with contextlib.suppress(OSError):
            name, fields = _stat(task)
            kind = next((kind for start, kind in JVM_THREADS if name.startswith(start)), "JVM: the rest")
            times[kind] += int(fields[11]) + int(fields[12])
    _, fields = _stat(Path(f"/proc/{jvm}"))
    below = int(fields[13]) + int(fields[14])  # of daemons that have ended
    listening = listening_inodes()
    for daemon in children(jvm):
        with contextlib.suppress(OSError):
            _, fields = _stat(Path(f"/proc/{daemon}"))
            below += sum(map(int, fields[11:15]))  # with that of its workers that have ended
        for worker in children(daemon):
            with contextlib.suppress(OSError):
                _, fields = _stat(Path(f"/proc/{worker}"))
                used = int(fields[11]) + int(fields[12])
                below += used
                times["slots"] += used if inodes(worker) & listening else 0
    times["below"] = below
    _, fields = _stat(Path("/proc/self"))
    times["driver"] = int(fields[11]) + int(fields[12])
    return times


def _stat(folder):
    name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    return name, rest.split()


class Sampler:
    """Samples the Python processes below the JVM while it runs."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.ended = threading.Event()
        self.recorders = {}
        self.slots = set()

    def run(self):
        (jvm,) = [pid for pid in children(os.getpid()) if "java" in os.readlink(f"/proc/{pid}/exe")]
        while not self.ended.wait(0.3):
            listening = listening_inodes()
            for daemon in children(jvm):
                for worker in children(daemon):
                    if inodes(worker) & listening:
                        self.slots.add(worker)
                    if worker not in self.recorders:
                        path = self.folder / f"{worker}.txt"
                        command = [self.program, "record", "-p", str(worker), "-r", "97", "-f", "raw", "-o", str(path)]
                        process = subprocess.Popen(
                            [*command, "-d", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                        )
                        self.recorders[worker] = process
        for recorder in self.recorders.values():
            recorder.send_signal(2)
        for worker, recorder in self.recorders.items():
            recorder.wait(60)
            path = self.folder / f"{worker}.txt"
            if path.exists():
                path.rename(path.with_name(f"{'slot' if worker in self.slots else 'worker'}-{worker}.txt"))


def stacks(folder, kind):
    found = collections.Counter()
    for path in folder.glob(f"{kind}-*.txt"):
        for line in path.read_text().splitlines():
            frames, _, count = line.rpartition(" ")
            found[frames] += int(count)
    return found


def shares(found):
    """Return the share of each kind; what only waits for others isn't sampled."""
    kinds = collections.Counter()
    for frames, count in found.items():
        named = [frame for frame in reversed(frames.split(";"))]
        kinds[next((kind for frame in named for kind, words in KINDS if re.search(words, frame)), "else")] += count
    total = sum(kinds.values()) or 1
    return {kind: count / total for kind, count in kinds.most_common()}


def source(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).csv(str(folder))


def run_spark(spark, folder, scratch, parallelism, hops):
    frame = source(spark, folder)
    if hops > 0:
        frame = frame.repartitionById(parallelism, F.expr(f"cast(pmod(hash(word), {parallelism}) AS INT)"))
    if hops > 1:
        frame = frame.mapInArrow(lambda batches: batches, SCHEMA)
    writer = frame.writeStream.foreachBatch(lambda batch, _: batch.write.format("noop").mode("overwrite").save())
    location = str(scratch / f"spark-{time.time_ns()}")
    writer.option("checkpointLocation", location).trigger(availableNow=True).start().awaitTermination()


def run_pystate(folder, backend, job):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration({"state.backend.type": backend}))
    words = env.from_data_frame(source(env.spark, folder), "words", bounded=True)
    keyed = words.key_by("word")
    counted = (keyed.process(Totals(), RESULT) if job == "process" else keyed.sum("number")).uid("count")
    counted.for_each_batch(lambda frame, epoch: frame.write.format("noop").mode("overwrite").save())
    env.execute("row hops")


class Slots:
    """Looks at slots while they are there: what they took is gone with them."""

    def __init__(self, run):
        self.run, self.last = run, collections.Counter()

    def measure(self):
        before, ended = processor_times(), threading.Event()

        def look():
            while not ended.wait(0.1):
                with contextlib.suppress(OSError, ValueError):
                    seen = processor_times()["slots"]
                    self.last["slots"] = max(self.last["slots"], seen)

        watcher = threading.Thread(target=look)
        watcher.start()
        self.run()
        ended.set()
        watcher.join()
        after = processor_times()
        taken = {kind: (after[kind] - before[kind]) / TICK for kind in after}
        taken["slots"] = self.last["slots"] / TICK
        taken["workers"] = taken.pop("below") - taken["slots"]
        return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--backend", default="hashmap")
    parser.add_argument("--job", choices=["process", "sum"], default="process", help="a function, or sum() by columns")
    parser.add_argument("--py-spy")
    parser.add_argument("--flame")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration({"parallelism.default": str(asked.parallelism)})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    write_rows(root / "small", 4000, 100, 4)
    write_rows(root / "all", asked.rows, asked.keys, 16)
    queries = {
        name: (lambda folder, hops=hops: run_spark(spark, folder, root, asked.parallelism, hops))
        for hops, name in enumerate(["read", "and shuffled", "and through Arrow"])
    }
    queries["pystate"] = lambda folder: run_pystate(folder, asked.backend, asked.job)
    for run in queries.values():
        run(root / "small")
    taken = {name: [] for name in queries}
    for _ in range(asked.rounds):
        for name, run in queries.items():
            taken[name].append(Slots(lambda run=run: run(root / "all")).measure())
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}")
    print(f"{asked.rows:,} rows, {asked.keys:,} keys, parallelism {asked.parallelism}, {asked.backend}\n")
    kinds = sorted({kind for rounds in taken.values() for one in rounds for kind in one})
    print(f"| microseconds of a processor per row | {' | '.join(kinds)} | all |\n{'|---' * (len(kinds) + 2)}|")
    for name, rounds in taken.items() if asked.rounds else ():
        row = [statistics.median(one.get(kind, 0) for one in rounds) / asked.rows * 1e6 for kind in kinds]
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in row)} | {sum(row):.2f} |", flush=True)
    if asked.py_spy:
        sampler = Sampler(asked.py_spy, root)
        sampling = threading.Thread(target=sampler.run)
        sampling.start()
        queries["pystate"](root / "all")
        sampler.ended.set()
        sampling.join()
        for kind in ("slot", "worker"):
            found = stacks(root, kind)
            print(f"\n| {kind}, {sum(found.values())} samples | share |\n|---|---|")
            for what, share in shares(found).items():
                print(f"| {what} | {share:.1%} |")
            if asked.flame:
                text = "\n".join(f"{frames} {count}" for frames, count in found.items())
                Path(asked.flame, f"{kind}.collapsed").write_text(text)
    spark.stop()


if __name__ == "__main__":
    main()

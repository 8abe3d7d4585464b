"""Counts per key in windows, interval joins and timers: pystate next to Spark's own and to Flink's.

    python benchmarks/windows.py [--rows N] [--keys N] [--parallelism N] [--rounds N] [--windows KIND ...] [--flink PYTHON]
        [--only WORD ...] [--share N]

All sides read the same CSV files of (key, time in ms) to their end, count per key in windows of 10 s (tumbling),
in windows of 10 s every 2 s (sliding) and in sessions with a gap of 10 s (session), join the rows with themselves,
each with those of its key from its time on for 1 s (joined), or count with a `ValueState` until an event-time timer 10 s
after a key's first row (timers), and throw the results away. Times cover a minute and come in order, so windows close while
rows come. pystate counts by a function of the program's, and by `count()`, whose sliding windows share panes. pystate and
Spark run in one session of local[2p + 2], in turn, after a small run of each; Spark keeps its state in RocksDB, and has
`transformWithState` for timers. Flink (`--flink`: a Python with `apache-flink`, such as `make fidelity` installs) runs in a
JVM of its own, by SQL, which has no timers, and by functions in thread mode, which has no interval join: a
`KeyedCoProcessFunction` with two maps stands for it.

Each side runs over all rows and over a quarter of them. A *whole run* is that over all, from `execute()` to the end of
the job, with the start of slots, queries and clusters. The figures of a row are three quarters of the rows in the difference
of the two, so what a start takes isn't in them: *processors, us* of all processes, which hold beside other work, and
*rows/s*. PyFlink's functions and `transformWithState` get the rows and keys divided by `--share`. *State* is the largest
that a side had for its rows, in a run of its own with a checkpoint at each epoch (Flink: each 500 ms): the largest
checkpoint of pystate and of Flink on disk; of Spark what RocksDB says of its files (`rocksdbSstFileSize`).
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyspark
from processes import ProcessorTime
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor

import pystate
from pystate.common import Time, Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.core.api.executor import register_executor
from pystate.datastream import (
    AggregateFunction,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.runtime.driver.embedded import LocalExecutor

SIZE_S, SLIDE_S, JOINED_S, SPAN_MS, WAIT_MS = 10, 2, 1, 60_000, 10_000
ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(Time.seconds(SIZE_S)),
    "sliding": SlidingEventTimeWindows.of(Time.seconds(SIZE_S), Time.seconds(SLIDE_S)),
    "session": EventTimeSessionWindows.with_gap(Time.seconds(SIZE_S)),
}
KINDS = (*ASSIGNERS, "joined", "timers")
SLOW = ("PyFlink", "transformWithState")
PAIRS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FLINK = Path(__file__).with_name("windows_flink.py")


class Count(AggregateFunction):
    """How many."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class Pair(ProcessJoinFunction):
    """The key, and both times."""

    def process_element(self, left, right, ctx):
        yield left.key, left.ms, right.ms


class CountUntilTimer(KeyedProcessFunction):
    """How many, until a timer."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = self.count.value()
        if count is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + WAIT_MS)
        self.count.update((count or 0) + 1)

    def on_timer(self, timestamp, ctx):
        yield self.count.value()
        self.count.clear()


class SparkCountUntilTimer(StatefulProcessor):
    """The same for `transformWithState`."""

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            count = self.count.get()
            if count is None:
                self.handle.registerTimer(row.ms + WAIT_MS)
            self.count.update(((0 if count is None else count[0]) + 1,))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        (count,) = self.count.get()
        self.count.clear()
        yield pyspark.sql.Row(n=count)

    def close(self):
        pass


def write_rows(folder, rows, keys, files=8):
    folder.mkdir()
    per_file = rows // files
    for number in range(files):
        first = number * per_file
        lines = (f"key-{(i * 7919) % keys},{i * SPAN_MS // rows}" for i in range(first, first + per_file))
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")


def run_pystate(folder, kind, backend, checkpoints=None, known=False):
    env = StreamExecutionEnvironment.get_execution_environment()
    if checkpoints:
        env.configure(
            Configuration(
                {"execution.checkpointing.every-epoch": "true", "execution.checkpointing.dir": checkpoints.as_uri()}
            )
        )
    env.set_state_backend(backend)

    def keyed(name):
        frame = env.spark.readStream.schema("key STRING, ms LONG").option("maxFilesPerTrigger", 2).csv(str(folder))
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        rows = env.from_data_frame(frame, name, bounded=True, event_time="ms", watermark_strategy=strategy)
        return rows.key_by("key", Types.STRING())

    if kind == "joined":
        joined = keyed("left").interval_join(keyed("right")).between(Time.seconds(0), Time.seconds(JOINED_S))
        counts = joined.process(Pair(), PAIRS).uid("join")
    elif kind == "timers":
        counts = keyed("rows").process(CountUntilTimer(), Types.LONG()).uid("count")
    elif known:
        counts = keyed("rows").window(ASSIGNERS[kind]).count().uid("count")
    else:
        counted = keyed("rows").window(ASSIGNERS[kind])
        counts = counted.aggregate(Count(), accumulator_type=Types.LONG(), output_type=Types.LONG()).uid("count")
    counts.for_each_batch(lambda frame, epoch: frame.write.format("noop").mode("overwrite").save())
    env.execute("windows")


def run_spark(spark, folder, kind, scratch):
    """Return the largest size of the state on disk."""

    def timed():
        rows = spark.readStream.schema("key STRING, ms LONG").option("maxFilesPerTrigger", 2).csv(str(folder))
        return rows.withColumn("t", f.timestamp_millis("ms")).withWatermark("t", "0 seconds")

    if kind == "joined":
        left, right = timed().alias("l"), timed().alias("r")
        close = f"l.key = r.key AND r.t BETWEEN l.t AND l.t + INTERVAL {JOINED_S} SECONDS"
        result = left.join(right, f.expr(close)).select("l.key", "l.ms", "r.ms")
    elif kind == "timers":
        result = timed().groupBy("key").transformWithState(SparkCountUntilTimer(), "n LONG", "Append", "EventTime")
    elif kind == "session":
        result = timed().groupBy(f.session_window("t", f"{SIZE_S} seconds"), "key").count()
    else:
        window = f.window("t", f"{SIZE_S} seconds", None if kind == "tumbling" else f"{SLIDE_S} seconds")
        result = timed().groupBy(window, "key").count()
    checkpoint = scratch / f"spark-{time.time_ns()}"
    query = (
        result.writeStream.outputMode("append")
        .format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    sizes = [
        operator["customMetrics"].get("rocksdbSstFileSize", 0)
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    ]
    return max(sizes, default=0)


def run_flink(python, folder, kind, way, backend, parallelism, checkpoints=None):
    """Return the seconds that the job took on the clock, and of processors, without the start of its JVM."""
    more = [checkpoints.as_uri()] if checkpoints else []
    path = f"{Path(python).absolute().parent}{os.pathsep}{os.environ['PATH']}"  # Flink starts "python"
    command = [python, FLINK, folder.as_uri(), kind, way, backend, str(parallelism), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    if done.returncode:
        sys.exit(f"{kind} by {way} on {backend}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    seconds, processors = done.stdout.rpartition("seconds ")[2].split()
    return float(seconds), float(processors)


def largest_checkpoint(folder, run):
    """Return the bytes of the largest complete checkpoint that was in a folder during a run."""
    largest, ended = 0, threading.Event()

    def look():
        nonlocal largest
        while not ended.wait(0.05):
            for metadata in folder.rglob("chk-*/_metadata"):
                try:
                    size = sum(file.stat().st_size for file in metadata.parent.rglob("*") if file.is_file())
                    shared = sum(file.stat().st_size for file in metadata.parent.parent.glob("shared/*") if file.is_file())
                except FileNotFoundError:  # it is subsumed
                    continue
                largest = max(largest, size + shared)

    folder.mkdir()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        run(folder)
    finally:
        ended.set()
        watcher.join()
    return largest


class Side:
    """What runs a program.

    Args:
        run: (folder, kind, where checkpoints go; None for none) -> seconds on the clock and of all processors; None for
            those that this process can tell.
        kinds: What it can do.
        state: (folder, kind, a new folder) -> the bytes of its state; None for those of its largest checkpoint.
    """

    def __init__(self, run, kinds, state=None):
        self.run, self.kinds, self._state = run, kinds, state

    def measure(self, folder, kind):
        """Return seconds on the clock, and of all processors."""
        started = time.perf_counter()
        with ProcessorTime() as used:
            measured = self.run(folder, kind, None)
        return measured or (time.perf_counter() - started, used.seconds)

    def state(self, folder, kind, where):
        if self._state is not None:
            return self._state(folder, kind)
        return largest_checkpoint(where, lambda checkpoints: self.run(folder, kind, checkpoints))


def all_sides(spark, root, options):
    """Return the sides by name."""
    windows = tuple(ASSIGNERS)
    sides = {}
    for name, backend in (("hashmap", HashMapStateBackend), ("rocksdb", EmbeddedRocksDBStateBackend)):
        sides[f"pystate, {name}"] = Side(
            lambda folder, kind, where, backend=backend: run_pystate(folder, kind, backend(), where), KINDS
        )
        sides[f"pystate, count(), {name}"] = Side(
            lambda folder, kind, where, backend=backend: run_pystate(folder, kind, backend(), where, known=True), windows
        )

    def of_spark(folder, kind):
        return run_spark(spark, folder, kind, root)

    def spark_run(folder, kind, _):
        of_spark(folder, kind)

    sides["Spark, RocksDB"] = Side(spark_run, (*windows, "joined"), of_spark)
    sides["Spark, transformWithState"] = Side(spark_run, ("timers",), of_spark)
    for name, way, backend, kinds in (
        ("Flink SQL, hashmap", "sql", "hashmap", (*windows, "joined")),
        ("Flink SQL, rocksdb", "sql", "rocksdb", (*windows, "joined")),
        ("PyFlink, thread mode, hashmap", "thread", "hashmap", KINDS),
    ):
        if options.flink:
            sides[name] = Side(
                lambda folder, kind, where, way=way, backend=backend: run_flink(
                    options.flink, folder, kind, way, backend, options.parallelism, where
                ),
                kinds,
            )
    return {name: side for name, side in sides.items() if any(word in name for word in options.only)}


def report(kind, sides, measured, options, root):
    """Print a row of the table for each side."""
    costs = {}
    for name, runs in measured.items():
        share = share_of(name, options)
        rows = options.rows // share * 0.75
        whole, quarter = (
            [statistics.median(column) for column in zip(*runs[part], strict=True)] for part in ("all", "quarter")
        )
        costs[name] = whole[0], rows / max(whole[0] - quarter[0], 1e-9), (whole[1] - quarter[1]) / rows * 1e6
    of_spark = next((cost for name, (_, _, cost) in costs.items() if name.startswith("Spark")), None)
    for name, (seconds, rate, cost) in costs.items():
        share = share_of(name, options)
        checkpoints = root / f"{kind}-{name}".replace(", ", "-").replace(" ", "-")  # a URI of which is its path
        size = sides[name].state(root / f"all-{share}", kind, checkpoints)
        beside = "" if of_spark is None else f"{of_spark / cost:.2f}"
        figures = f"{options.rows // share:,} | {seconds:.1f} | {rate:,.0f} | {cost:.1f} | {beside} | {size:,}"
        print(f"| {kind} | {name} | {figures} |")
    sys.stdout.flush()


def share_of(name, options):
    return options.share if any(word in name for word in SLOW) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--flink", metavar="PYTHON")
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of sides")
    parser.add_argument("--share", type=int, default=10, help="which part of the rows slow sides get")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration(
        {
            "parallelism.default": str(options.parallelism),
            "spark.sql.streaming.stateStore.providerClass": PROVIDER,
            "spark.sql.shuffle.partitions": str(options.parallelism),
        }
    )
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    try:
        sides = all_sides(spark, root, options)
        write_rows(root / "small", 2_000, 100)
        for share in {share_of(name, options) for name in sides}:
            write_rows(root / f"quarter-{share}", options.rows // share // 4, options.keys // share)
            write_rows(root / f"all-{share}", options.rows // share, options.keys // share)
        print(
            f"pystate {pystate.__version__}, pyspark {pyspark.__version__}, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores, load average {os.getloadavg()[1]:.0f}"
        )
        print(
            f"{options.rows:,} rows, {options.keys:,} keys, parallelism {options.parallelism}, median of {options.rounds}\n"
        )
        print("| windows | | rows | whole run, s | rows/s | processors, us a row | beside Spark | state, bytes |")
        print("|---|---|---|---|---|---|---|---|")
        for kind in options.windows:
            some = {name: side for name, side in sides.items() if kind in side.kinds}
            for name, side in some.items():
                if "Flink" not in name:  # which starts over each time
                    side.run(root / "small", kind, None)
            measured = {name: {"quarter": [], "all": []} for name in some}
            for _ in range(options.rounds):
                for name, side in some.items():
                    for part, runs in measured[name].items():
                        runs.append(side.measure(root / f"{part}-{share_of(name, options)}", kind))
                        print(f"{kind}, {name}, {part}: {runs[-1]}", file=sys.stderr, flush=True)
            report(kind, some, measured, options, root)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()

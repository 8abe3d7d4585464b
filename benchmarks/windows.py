"""Counts per key in windows, and interval joins: pystate next to Spark's own and to Flink SQL's.

    python benchmarks/windows.py [--rows N] [--keys N] [--parallelism N] [--rounds N] [--windows KIND ...] [--flink PYTHON]

All sides read the same CSV files of (key, time in ms) to their end, count per key in windows of 10 s (tumbling),
in windows of 10 s every 2 s (sliding) and in sessions with a gap of 10 s (session), or join the rows with themselves,
each with those of its key from its time on for 1 s (joined), and throw the results away. Times cover a minute and come
in order, so windows close while rows come. pystate counts by a function of the program's, and by `count()`, whose sliding
windows share panes. pystate and Spark run in one session of local[2p + 2], in turn, after a small run of each; Spark keeps
its state in RocksDB. Flink (`--flink`: a Python with `apache-flink`, such as `make fidelity` installs) runs in a JVM of
its own.

Each side runs over all rows and over a quarter of them. A *whole run* is that over all, from `execute()` to the end of
the job, with the start of slots, queries and clusters. *Rows/s* are those of three quarters of the rows in the
difference of the two, so what a start takes isn't in it. *State* is the largest that a side had, in a run of its own
with a checkpoint at each epoch (Flink: each 500 ms): the largest checkpoint of pystate and of Flink on disk; of Spark what
RocksDB says of its files (`rocksdbSstFileSize`).
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pyspark
from pyspark.sql import functions as f

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
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from pystate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.runtime.driver.embedded import LocalExecutor

SIZE_S, SLIDE_S, JOINED_S, SPAN_MS = 10, 2, 1, 60_000
ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(Time.seconds(SIZE_S)),
    "sliding": SlidingEventTimeWindows.of(Time.seconds(SIZE_S), Time.seconds(SLIDE_S)),
    "session": EventTimeSessionWindows.with_gap(Time.seconds(SIZE_S)),
}
KINDS = (*ASSIGNERS, "joined")
PAIRS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FLINK = """
import sys, time
from pyflink.table import EnvironmentSettings, TableEnvironment
folder, kind, parallelism, backend, checkpoints = sys.argv[1:]
table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
table.get_config().set("parallelism.default", parallelism).set("state.backend.type", backend)
if checkpoints:
    config = table.get_config()
    config.set("execution.checkpointing.interval", "500ms").set("execution.checkpointing.dir", checkpoints)
table.execute_sql(
    "CREATE TABLE rows_in (k STRING, ms BIGINT, t AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR t AS t) "
    f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
)
table.execute_sql("CREATE TABLE gone (k STRING, s TIMESTAMP_LTZ(3), n BIGINT) WITH ('connector' = 'blackhole')")
windows = {
    "tumbling": "TUMBLE(TABLE rows_in, DESCRIPTOR(t), INTERVAL '10' SECOND)",
    "sliding": "HOP(TABLE rows_in, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    "session": "SESSION(TABLE rows_in PARTITION BY k, DESCRIPTOR(t), INTERVAL '10' SECOND)",
}
if kind == "joined":
    query = (
        "SELECT l.k, l.t, r.ms FROM rows_in l, rows_in r "
        "WHERE l.k = r.k AND r.t BETWEEN l.t AND l.t + INTERVAL '1' SECOND"
    )
else:
    query = f"SELECT k, window_start, COUNT(*) FROM {windows[kind]} GROUP BY k, window_start, window_end"
started = time.perf_counter()
table.execute_sql("INSERT INTO gone " + query).wait()
print("seconds", time.perf_counter() - started)
"""


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


def run_flink(python, folder, kind, parallelism, backend, checkpoints=None):
    """Return the seconds that the job took, without the start of its JVM."""
    done = subprocess.run(
        [python, "-c", FLINK, folder.as_uri(), kind, str(parallelism), backend, checkpoints.as_uri() if checkpoints else ""],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"},  # Flink starts "python"
    )
    return float(done.stdout.rpartition("seconds ")[2])


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


def timed(action):
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--flink", metavar="PYTHON")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration(
        {
            "parallelism.default": str(options.parallelism),
            "spark.sql.streaming.stateStore.providerClass": PROVIDER,
            "spark.sql.shuffle.partitions": str(options.parallelism),
        }
    )
    home = PystateHome(root / "home")
    executor = LocalExecutor(configuration, home)
    register_executor(executor)
    spark = executor.spark_session(configuration)

    sides = {
        "pystate, hashmap": lambda folder, kind: timed(lambda: run_pystate(folder, kind, HashMapStateBackend())),
        "pystate, rocksdb": lambda folder, kind: timed(lambda: run_pystate(folder, kind, EmbeddedRocksDBStateBackend())),
        "pystate, count(), hashmap": lambda folder, kind: timed(
            lambda: run_pystate(folder, kind, HashMapStateBackend(), known=True)
        ),
        "pystate, count(), rocksdb": lambda folder, kind: timed(
            lambda: run_pystate(folder, kind, EmbeddedRocksDBStateBackend(), known=True)
        ),
        "Spark, RocksDB": lambda folder, kind: timed(lambda: run_spark(spark, folder, kind, root)),
    }
    if options.flink:
        for backend in ("hashmap", "rocksdb"):
            sides[f"Flink SQL, {backend}"] = lambda folder, kind, backend=backend: run_flink(
                options.flink, folder, kind, options.parallelism, backend
            )
    states = {
        "pystate, hashmap": lambda folder, kind: largest_checkpoint(
            root / f"h-{kind}", lambda where: run_pystate(folder, kind, HashMapStateBackend(), where)
        ),
        "pystate, rocksdb": lambda folder, kind: largest_checkpoint(
            root / f"r-{kind}", lambda where: run_pystate(folder, kind, EmbeddedRocksDBStateBackend(), where)
        ),
        "pystate, count(), hashmap": lambda folder, kind: largest_checkpoint(
            root / f"kh-{kind}", lambda where: run_pystate(folder, kind, HashMapStateBackend(), where, known=True)
        ),
        "pystate, count(), rocksdb": lambda folder, kind: largest_checkpoint(
            root / f"kr-{kind}", lambda where: run_pystate(folder, kind, EmbeddedRocksDBStateBackend(), where, known=True)
        ),
        "Spark, RocksDB": lambda folder, kind: run_spark(spark, folder, kind, root),
    }
    if options.flink:
        for backend in ("hashmap", "rocksdb"):
            states[f"Flink SQL, {backend}"] = lambda folder, kind, backend=backend: largest_checkpoint(
                root / f"f-{backend}-{kind}",
                lambda where: run_flink(options.flink, folder, kind, options.parallelism, backend, where),
            )
    try:
        write_rows(root / "small", 2_000, 100)
        write_rows(root / "quarter", options.rows // 4, options.keys)
        write_rows(root / "all", options.rows, options.keys)
        print(
            f"pystate {pystate.__version__}, pyspark {pyspark.__version__}, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores"
        )
        print(
            f"{options.rows:,} rows, {options.keys:,} keys, parallelism {options.parallelism}, median of {options.rounds}\n"
        )
        print("| windows | | whole run, s | rows/s | beside Spark | state, bytes |\n|---|---|---|---|---|---|")
        for kind in options.windows:
            some = {name: run for name, run in sides.items() if kind != "joined" or "count()" not in name}
            for name, run in some.items():
                if not name.startswith("Flink"):  # which starts over each time
                    run(root / "small", kind)
            whole, quarter = ({name: [] for name in some} for _ in range(2))
            for _ in range(options.rounds):
                for name, run in some.items():
                    quarter[name].append(run(root / "quarter", kind))
                    whole[name].append(run(root / "all", kind))
            wholes = {name: statistics.median(each) for name, each in whole.items()}
            rates = {
                name: options.rows * 0.75 / max(wholes[name] - statistics.median(each), 1e-9)
                for name, each in quarter.items()
            }
            of_spark = rates["Spark, RocksDB"]
            for name, rate in rates.items():
                size = states[name](root / "all", kind)
                print(
                    f"| {kind} | {name} | {wholes[name]:.1f} | {rate:,.0f} | {rate / of_spark:.2f} | {size:,} |", flush=True
                )
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Rows per second of a per-record keyed count: pystate next to PySpark's `transformWithState`, same data, same session.

    python benchmarks/keyed_count.py [ROWS] [KEYS] [PARALLELISM]

Both read the same text files with `availableNow`, keep one LONG per key, and emit (key, count) for every record into Spark's
`noop` sink. Each side runs once on a small folder first, so that JVM and workers are warm; then each runs on the whole
folder, in turn, three times. Counted is the time of the epochs alone (`addBatch` of the query's progress) and, beside it,
the whole run with start and stop, which for pystate includes its slots.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

import pystate
from pystate.common import Row, Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.runtime.driver.embedded import LocalExecutor

COUNTED = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
SPARK_COUNTED = StructType([StructField("word", StringType()), StructField("count", LongType())])
ROUNDS = 3


class Count(KeyedProcessFunction):
    """pystate's side."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(word=value.value, count=count)


class SparkCount(StatefulProcessor):
    """PySpark's side."""

    def init(self, handle):
        self.count = handle.getValueState("count", StructType([StructField("n", LongType())]))

    def handleInputRows(self, key, rows, timer_values):
        for _ in rows:
            state = self.count.get()
            count = (0 if state is None else state[0]) + 1
            self.count.update((count,))
            yield pyspark.sql.Row(word=key[0], count=count)

    def close(self):
        return None


def write_words(folder, rows, keys, files):
    folder.mkdir()
    for number in range(files):
        words = (f"key-{(i * 7919) % keys}" for i in range(number, rows, files))
        (folder / f"{number}.txt").write_text("\n".join(words) + "\n")


class Progress:
    """Adds up the time that a query's epochs took."""

    def __init__(self, spark):
        self.spark = spark
        self.seen = {}

    def watch(self, run):
        """Return (seconds of all epochs, seconds of the whole run)."""
        from pyspark.sql.streaming import StreamingQueryListener

        seen = {}

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event):
                return None

            def onQueryProgress(self, event):
                seen[event.progress.batchId] = event.progress.durationMs.get("addBatch", 0)

            def onQueryTerminated(self, event):
                seen["ended"] = 0

        listener = Listener()
        self.spark.streams.addListener(listener)
        started = time.perf_counter()
        run()
        whole = time.perf_counter() - started
        deadline = time.monotonic() + 30
        while "ended" not in seen and time.monotonic() < deadline:
            time.sleep(0.05)
        self.spark.streams.removeListener(listener)
        return sum(seen.values()) / 1000, whole


def run_pystate(folder, function=None, parallelism=None):
    env = StreamExecutionEnvironment.get_execution_environment()
    if parallelism is not None:
        env.set_parallelism(parallelism)
    words = env.from_data_frame(env.spark.readStream.text(str(folder)), "words", bounded=True)
    counted = words.key_by("value").process(function or Count(), COUNTED).uid("count")
    counted.for_each_batch(lambda frame, epoch: frame.write.format("noop").mode("overwrite").save())
    env.execute("keyed count")


def run_transform_with_state(spark, folder, scratch):
    counted = (
        spark.readStream.text(str(folder))
        .groupBy("value")
        .transformWithState(SparkCount(), SPARK_COUNTED, outputMode="Update", timeMode="None")
    )
    query = (
        counted.writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(scratch / f"tws-{time.time_ns()}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main():
    rows, keys, parallelism = (int(value) for value in (sys.argv[1:] + ["400000", "20000", "2"][len(sys.argv) - 1 :]))
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    home = PystateHome(root / "home")
    configuration = Configuration(
        {
            "parallelism.default": str(parallelism),
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
        }
    )
    executor = LocalExecutor(configuration, home)
    register_executor(executor)
    spark = executor.spark_session(configuration)
    try:
        write_words(root / "small", 2000, 100, 2)
        write_words(root / "all", rows, keys, 4)
        progress = Progress(spark)
        sides = {
            "pystate, hashmap": run_pystate,
            "transformWithState, Row": lambda folder: run_transform_with_state(spark, folder, root),
        }
        for run in sides.values():
            progress.watch(lambda run=run: run(root / "small"))
        results = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, run in sides.items():
                results[name].append(progress.watch(lambda run=run: run(root / "all")))
        report(results, rows, keys, parallelism)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def machine():
    """Return what the figures were measured on."""
    python = sys.version.split()[0]
    return f"pystate {pystate.__version__}, pyspark {pyspark.__version__}, Python {python}, {os.cpu_count()} cores"


def report(results, rows, keys, parallelism):
    print(machine())
    print(f"{rows:,} rows, {keys:,} keys, parallelism {parallelism}, median of {ROUNDS}\n")
    print("| | epochs, rows/s | whole run, s | ratio |")
    print("|---|---|---|---|")
    medians = {name: [statistics.median(column) for column in zip(*times, strict=True)] for name, times in results.items()}
    slowest = max(epochs for epochs, _ in medians.values())
    for name, (epochs, whole) in medians.items():
        print(f"| {name} | {rows / epochs:,.0f} | {whole:.1f} | {slowest / epochs:.1f} |")


if __name__ == "__main__":
    main()

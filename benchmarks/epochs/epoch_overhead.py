"""Milliseconds of an almost empty epoch, and from a row's arrival to its output: pystate next to the same Spark query.

    python benchmarks/epochs/epoch_overhead.py [EPOCHS] [PARALLELISM]

Every epoch reads a file of one row. The first table has the median and the 90th percentile of `triggerExecution` in the
query's progress, the first epochs left out, with the files all there:

- spark: source, `repartitionById`, an identity `mapInArrow`, `foreachBatch` that writes to the `noop` sink;
- pystate, print: the same with a keyed count in slots, its output fetched by the driver;
- pystate, for_each_batch: the same, its output handed to a function as a DataFrame that is written to `noop`.

The second one has the time from a file's appearance to the moment at which its row is out, with one file at a time and no
trigger interval: in the hands of the function of Spark's `foreachBatch`, or of pystate's `for_each_batch`, or printed.
"""

import contextlib
import os
import queue
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import COUNTED, Count, machine
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from pystate.common.configuration import Configuration
from pystate.common.errors import JobCancelledError
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.embedded import LocalExecutor

LEFT_OUT = 5
ROUNDS = 3
INTERVAL = "pystate.epoch.interval"


class Durations(StreamingQueryListener):
    """Collects what the progress of a query says."""

    def __init__(self):
        self.milliseconds = {}
        self.ended = False

    def onQueryStarted(self, event):
        return None

    def onQueryProgress(self, event):
        if event.progress.numInputRows:
            self.milliseconds[event.progress.batchId] = event.progress.durationMs["triggerExecution"]

    def onQueryTerminated(self, event):
        self.ended = True


def measured(spark, run):
    durations = Durations()
    spark.streams.addListener(durations)
    run()
    deadline = time.monotonic() + 30
    while not durations.ended and time.monotonic() < deadline:
        time.sleep(0.05)
    spark.streams.removeListener(durations)
    return [durations.milliseconds[epoch] for epoch in sorted(durations.milliseconds)][LEFT_OUT:]


def source(spark, folder):
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def to_noop(frame, epoch):
    frame.write.format("noop").mode("overwrite").save()


def run_spark(spark, folder, scratch, parallelism):
    route = F.expr(f"cast(pmod(hash(value), {parallelism}) AS INT)")
    frame = source(spark, folder).repartitionById(parallelism, route).mapInArrow(lambda batches: batches, "value STRING")
    location = str(scratch / f"spark-{time.time_ns()}")
    query = frame.writeStream.foreachBatch(to_noop).option("checkpointLocation", location).trigger(availableNow=True).start()
    query.awaitTermination()


def run_pystate(folder, sink):
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_data_frame(source(env.spark, folder), "words", bounded=True)
    counted = words.key_by("value").process(Count(), COUNTED).uid("count")
    if sink is None:
        counted.print()
    else:
        counted.for_each_batch(sink)
    env.execute("empty epochs")


class Arrivals:
    """Puts rows into a folder, one at a time, and takes the time until each comes out."""

    def __init__(self, root, name, epochs):
        self.folder = root / f"arrivals-{name}"
        self.folder.mkdir()
        self.count = epochs + LEFT_OUT
        self.milliseconds = []
        self.out = queue.Queue()

    def run(self, stop):
        for number in range(self.count):
            part = self.folder.with_name(f"{self.folder.name}.part")
            part.write_text(f"word-{number % 7}\n")
            arrived = time.perf_counter()
            part.rename(self.folder / f"{number:04}.txt")
            self.out.get(timeout=60)
            self.milliseconds.append((time.perf_counter() - arrived) * 1000)
            time.sleep(0.02)
        stop()

    def collect(self, frame, epoch):
        if frame.collect():
            self.out.put(epoch)

    def write(self, text):
        """Be a stdout."""
        if text.strip():
            self.out.put(text)

    def flush(self):
        """Do nothing."""

    def writelines(self, lines):
        for line in lines:
            self.write(line)


def arrivals_of_spark(spark, root, number, epochs, parallelism):
    arrivals = Arrivals(root, f"spark-{number}", epochs)
    route = F.expr(f"cast(pmod(hash(value), {parallelism}) AS INT)")
    frame = source(spark, arrivals.folder).repartitionById(parallelism, route)
    frame = frame.mapInArrow(lambda batches: batches, "value STRING")
    query = (
        frame.writeStream.foreachBatch(arrivals.collect)
        .option("checkpointLocation", str(root / f"arrivals-{number}"))
        .start()
    )
    arrivals.run(query.stop)
    return arrivals.milliseconds[LEFT_OUT:]


def arrivals_of_pystate(root, number, epochs, *, prints):
    arrivals = Arrivals(root, f"pystate-{prints}-{number}", epochs)
    stdout = sys.stdout
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration({INTERVAL: "0 ms"}))
    words = env.from_data_frame(source(env.spark, arrivals.folder), "words")
    counted = words.key_by("value").process(Count(), COUNTED).uid("count")
    if prints:
        sys.stdout = arrivals
        counted.print()
    else:
        counted.for_each_batch(arrivals.collect)
    job = env.execute_async("arrivals")
    arrivals.run(lambda: job.cancel().result())
    with contextlib.suppress(JobCancelledError):
        job.get_job_execution_result().result()
    sys.stdout = stdout
    return arrivals.milliseconds[LEFT_OUT:]


def table(results):
    first = statistics.median(next(iter(results.values())))
    print("| | median ms | p90 ms | ratio of medians |")
    print("|---|---|---|---|")
    for name, values in results.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.0f} | {sorted(values)[int(len(values) * 0.9)]:.0f} | {median / first:.2f} |")


def main():
    epochs, parallelism = (int(value) for value in (sys.argv[1:] + ["40", "2"][len(sys.argv) - 1 :]))
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    folder = root / "in"
    folder.mkdir()
    for number in range(epochs + LEFT_OUT):
        (folder / f"{number:04}.txt").write_text(f"word-{number % 7}\n")
    configuration = Configuration({"parallelism.default": str(parallelism)})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    sides = {
        "spark, identity mapInArrow": lambda: run_spark(spark, folder, root, parallelism),
        "pystate, print": lambda: run_pystate(folder, None),
        "pystate, for_each_batch": lambda: run_pystate(folder, to_noop),
    }
    results = {name: [] for name in sides}
    sys.stdout, printed = open(os.devnull, "w"), sys.stdout
    for _ in range(ROUNDS):
        for name, run in sides.items():
            results[name] += measured(spark, run)
    arrivals = {
        "spark, identity mapInArrow": lambda number: arrivals_of_spark(spark, root, number, epochs, parallelism),
        "pystate, for_each_batch": lambda number: arrivals_of_pystate(root, number, epochs, prints=False),
        "pystate, print": lambda number: arrivals_of_pystate(root, number, epochs, prints=True),
    }
    latencies = {name: [] for name in arrivals}
    for number in range(ROUNDS):
        for name, run in arrivals.items():
            latencies[name] += run(number)
    sys.stdout = printed
    load = os.getloadavg()[1]
    spark.stop()
    shutil.rmtree(root, ignore_errors=True)
    print(machine())
    print(f"{epochs} epochs of one row, {ROUNDS} times, parallelism {parallelism}, load average {load:.1f}\n")
    table(results)
    print(f"\nFrom arrival to output, {epochs} rows one at a time, {ROUNDS} times:\n")
    table(latencies)


if __name__ == "__main__":
    main()

"""Milliseconds of an almost empty epoch: pystate next to the same Spark query with an identity `mapInArrow`.

    python benchmarks/epoch_overhead.py [EPOCHS] [PARALLELISM]

Every epoch reads a file of one row. Reported is the median and the 90th percentile of `triggerExecution` in the query's
progress, the first epochs left out. The rows of the table:

- spark: source, `repartitionById`, an identity `mapInArrow`, `foreachBatch` that writes to the `noop` sink;
- pystate, print: the same with a keyed count in slots, its output fetched by the driver;
- pystate, for_each_batch: the same, its output handed to a function as a DataFrame that is written to `noop`.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from keyed_count import COUNTED, Count, machine
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from pystate.common.configuration import Configuration
from pystate.common.home import PystateHome
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.executor import register_executor
from pystate.driver.embedded import LocalExecutor

LEFT_OUT = 5


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
    for _ in range(2):
        for name, run in sides.items():
            results[name] += measured(spark, run)
    sys.stdout = printed
    spark.stop()
    shutil.rmtree(root, ignore_errors=True)
    print(machine())
    print(f"{epochs} epochs of one row, twice, parallelism {parallelism}\n")
    print("| | median ms | p90 ms | ratio of medians |")
    print("|---|---|---|---|")
    first = statistics.median(results["spark, identity mapInArrow"])
    for name, values in results.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.0f} | {sorted(values)[int(len(values) * 0.9)]:.0f} | {median / first:.2f} |")


if __name__ == "__main__":
    main()

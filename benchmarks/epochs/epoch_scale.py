"""What an almost empty epoch costs against the number of subtasks, of operators in a chain, and of levels.

    python benchmarks/epochs/epoch_scale.py [--subtasks 2 4 8 16 32 64] [--operators 1 4 16] [--levels 1 2 3 5] [--epochs 8]

Each epoch reads a file of one row. A job has levels (`key_by`, each with a keyed count) at a parallelism, and operators
(`map`s) chained after the last one. Cases differ from `--base` (parallelism 2, one operator, one level) in one figure
each. The cost is the processor time of all processes (driver, JVM, slots and workers) from the third epoch's progress to
the last one's, per epoch; with as many cores as subtasks tasks run side by side, so that the wall's time grows less.
*floor* is Spark's query with an identity stage in the place of each level.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import COUNTED, Count, machine
from processes import processors_s
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from pystate.common import Row, Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.embedded import LocalExecutor

LEFT_OUT = 3
WORD = Types.ROW_NAMED(["value"], [Types.STRING()])


class Progress(StreamingQueryListener):
    """Notes the processors' time and the duration at each batch's progress."""

    def __init__(self):
        self.seen = []
        self.ended = threading.Event()

    def onQueryStarted(self, event):
        return None

    def onQueryProgress(self, event):
        if event.progress.numInputRows:
            self.seen.append((processors_s(), event.progress.durationMs["triggerExecution"]))

    def onQueryTerminated(self, event):
        self.ended.set()


def source(spark, folder):
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def spark_job(spark, folder, scratch, subtasks, operators, levels):
    frame = source(spark, folder)
    for level in range(levels):
        route = F.expr(f"cast(pmod(hash(value, {level}), {subtasks}) AS INT)")
        frame = frame.repartitionById(subtasks, route).mapInArrow(lambda batches: batches, "value STRING")
    location = str(scratch / f"spark-{time.time_ns()}")
    writer = frame.writeStream.foreachBatch(lambda batch, _: batch.write.format("noop").mode("overwrite").save())
    writer.option("checkpointLocation", location).trigger(availableNow=True).start().awaitTermination()


def pystate_job(folder, subtasks, operators, levels):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(subtasks)
    stream = env.from_data_frame(source(env.spark, folder), "words", bounded=True)
    stream = stream.key_by("value").process(Count(), COUNTED).uid("count-0")
    for level in range(1, levels):
        words = stream.map(lambda pair: Row(value=pair[0]), WORD).key_by(lambda word: word.value, Types.STRING())
        stream = words.process(Count(), COUNTED).uid(f"count-{level}")
    for _ in range(operators - 1):
        stream = stream.map(lambda pair: pair, COUNTED)
    stream.print()
    env.execute("empty epochs")


def measured(spark, run):
    """Return seconds of the processors, and of the wall, per epoch."""
    progress = Progress()
    spark.streams.addListener(progress)
    run()
    progress.ended.wait(60)
    spark.streams.removeListener(progress)
    seen = progress.seen
    walls = sorted(ms for _, ms in seen[LEFT_OUT:])
    return (seen[-1][0] - seen[LEFT_OUT - 1][0]) / (len(seen) - LEFT_OUT), walls[len(walls) // 2] / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subtasks", type=int, nargs="*", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--operators", type=int, nargs="*", default=[4, 16])
    parser.add_argument("--levels", type=int, nargs="*", default=[2, 3, 5])
    parser.add_argument("--base", type=int, default=2, help="the parallelism of the cases that differ in something else")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--floor-up-to", type=int, default=16, help="subtasks")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    folder = root / "in"
    folder.mkdir()
    for number in range(asked.epochs + LEFT_OUT):
        (folder / f"{number:04}.txt").write_text(f"word-{number % 7}\n")
    widest = max([asked.base, *asked.subtasks])
    configuration = Configuration({"parallelism.default": str(widest), "spark.sql.shuffle.partitions": "2"})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    cases = [(subtasks, 1, 1) for subtasks in asked.subtasks]
    cases += [(asked.base, operators, 1) for operators in asked.operators]
    cases += [(asked.base, 1, levels) for levels in asked.levels]
    printed, sys.stdout = sys.stdout, open(os.devnull, "w")
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {asked.epochs} epochs each\n", file=printed)
    print("| subtasks | operators | levels | processors, s | of the floor | wall, s | of the floor |", file=printed)
    print("|---|---|---|---|---|---|---|", file=printed, flush=True)
    measured(spark, lambda: pystate_job(folder, asked.base, 1, 1))  # the JVM compiles what all cases have
    for case in cases:
        own = measured(spark, lambda case=case: pystate_job(folder, *case))
        floor = None
        if case[0] <= asked.floor_up_to and case[1] == 1:
            floor = measured(spark, lambda case=case: spark_job(spark, folder, root, *case))
        of_floor = ("-", "-") if floor is None else (f"{floor[0]:.2f}", f"{floor[1]:.2f}")
        row = [*map(str, case), f"{own[0]:.2f}", of_floor[0], f"{own[1]:.2f}", of_floor[1]]
        print(f"| {' | '.join(row)} |", file=printed, flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end", file=printed, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""What the proof that an epoch is whole takes: of an almost empty epoch, and of one with many rows.

    python benchmarks/epochs/epoch_proof.py [EPOCHS] [ROWS] [PARALLELISM]

A keyed count reads a file per epoch: EPOCHS files of one row, then EPOCHS files of ROWS rows, the first five of each left
out. Timed in the driver, per epoch: all of it, the proof (what Spark's status store is asked, and the comparison), and the
round to the slots that finishes the epoch.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from epoch_overhead import LEFT_OUT
from keyed_count import COUNTED, Count, machine

from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.engines.micro_batch.driver.epoch_slots import EpochSlots
from pystate.runtime.engines.micro_batch.driver.micro_batch_engine import MicroBatchEngine
from pystate.runtime.engines.micro_batch.spark.epoch_proof import EpochProof

TIMED = {
    "whole epoch": (MicroBatchEngine, "_run_batch"),
    "proof": (EpochProof, "check"),
    "finish in slots": (EpochSlots, "finish_epoch"),
}


def timed(owner, name, into):
    method = getattr(owner, name)

    def call(*arguments):
        started = time.perf_counter()
        value = method(*arguments)
        into.append((time.perf_counter() - started) * 1000)
        return value

    setattr(owner, name, call)


def run(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    frame = env.spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    words = env.from_data_frame(frame, "words", bounded=True)
    words.key_by("value").process(Count(), COUNTED).uid("count").print()
    env.execute("epochs")


def main():
    epochs, rows, parallelism = (int(value) for value in (sys.argv[1:] + ["40", "200000", "2"][len(sys.argv) - 1 :]))
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration({"parallelism.default": str(parallelism)})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    executor.spark_session(configuration)
    times = defaultdict(list)
    for name, (owner, method) in TIMED.items():
        timed(owner, method, times[name])
    results = {}
    sys.stdout, printed = open(os.devnull, "w"), sys.stdout
    for count in (1, rows):
        folder = root / f"in-{count}"
        folder.mkdir()
        for number in range(epochs + LEFT_OUT):
            lines = "".join(f"word-{(number + row) % 20_000}\n" for row in range(count))
            (folder / f"{number:04}.txt").write_text(lines)
        for _ in range(2):  # the first time is for the JVM
            for values in times.values():
                values.clear()
            run(folder)
        results[count] = {name: values[LEFT_OUT:] for name, values in times.items()}
    sys.stdout = printed
    shutil.rmtree(root, ignore_errors=True)
    print(machine())
    print(f"{epochs} epochs each, parallelism {parallelism}, milliseconds\n")
    print("| rows an epoch | | median | p90 | share of the epoch |")
    print("|---|---|---|---|---|")
    for count, measured in results.items():
        whole = statistics.median(measured["whole epoch"])
        for name, values in measured.items():
            median, p90 = statistics.median(values), sorted(values)[int(len(values) * 0.9)]
            print(f"| {count:,} | {name} | {median:.1f} | {p90:.1f} | {median / whole:.1%} |")


if __name__ == "__main__":
    main()

"""Rows per second of reading state without a job: `pystate state read`, and the Spark reader.

    python benchmarks/snapshots/offline_read.py [KEYS]

A savepoint with one value state of LONG by STRING keys is written by the state processor, then read whole and by one key.
Processes are timed from their start, the Spark reader with its session running.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from pyspark.sql import functions as F

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.datastream import ValueStateDescriptor
from pystate.runtime.spark.sessions.session import create_session
from pystate.state_processor import OperatorTransformation, SavepointReader, SavepointWriter

PYSTATE = [sys.executable, "-m", "pystate_cli", "state", "read"]


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main():
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        folder = Path(root)
        spark = create_session(Configuration({"pystate.spark.master": "local[2,4]"}), "offline read", folder / "spark.log")
        rows = spark.range(0, keys, 1, 4).select(F.format_string("key-%010d", "id").alias("key"), F.col("id").alias("value"))
        states = {"count": (ValueStateDescriptor("count", Types.LONG()), "value")}
        operator = OperatorTransformation.states_from_frame(rows, "key", states)
        writer = SavepointWriter.new_savepoint(spark, 128).with_operator("count", operator, parallelism=2)
        path = str(folder / "savepoint")
        results = [("SavepointWriter, states_from_frame", keys, (seconds(lambda: writer.write(path)), None))]

        def read(*options):
            return seconds(
                lambda: subprocess.run([*PYSTATE, path, "count", "count", *options], capture_output=True, check=True)
            )

        for name in ("table", "json", "csv", "parquet"):
            options = ("--format", name, "-o", str(folder / f"rows.{name}"))
            results.append((f"pystate state read --format {name}", keys, read(*options)))
        results.append(("pystate state read --key", 1, read("--key", "key-0000000007")))
        state = SavepointReader.read(spark, path).read_keyed_state("count", "count")
        warm = SavepointReader.read(spark, path).read_keyed_state("count", "count", key="key-0000000007")
        warm.collect()
        results.append(
            ("SavepointReader", keys, (seconds(lambda: state.write.format("noop").mode("overwrite").save()), None))
        )
        results.append(("SavepointReader, key=", 1, (seconds(warm.collect), None)))
        spark.stop()
    print(machine())
    print(f"{keys} keys\n")
    print("| | s | rows/s | CPU s of the process | rows per CPU s |")
    print("|---|---|---|---|---|")
    for name, count, (took, cpu) in results:
        of_cpu = ["", ""] if cpu is None else [f"{cpu:.2f}", f"{count / cpu:,.0f}" if count > 1 else ""]
        print(f"| {name} | {took:.2f} | {f'{count / took:,.0f}' if count > 1 else ''} | {' | '.join(of_cpu)} |")


if __name__ == "__main__":
    main()

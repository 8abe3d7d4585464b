"""A keyed count per record in pystate, in its peers, and in the two floors that none of them gets below: `make peers`.

    python benchmarks/peers.py [--rows N] [--keys N] [--parallelism N] [--rounds N] [--pyflink PYTHON]
                               [--only WORD ...] [--record FILE]

All sides read the same CSV files of (key, number) to their end, keep how many numbers a key has had and their sum (a LONG
and a DOUBLE), and throw away what they emit: a row per row, but for Spark's aggregation, which emits one per key and epoch.

- floor, identity: the Spark query, its shuffle, and a `mapInArrow` that hands on what it gets;
- floor, bare loop: the same, with a Python loop and a dict in the place of state;
- Spark's groupBy().agg and transformWithState (Row), with the RocksDB provider;
- pystate, a `KeyedProcessFunction` with a `ValueState`, on both backends; the same rows as whole batches: `sum()`, which
  gives a sum per row, and one per key and epoch with `execution.mini-batch.enabled`;
- Flink SQL's GROUP BY in its JVM, on both backends; PyFlink's `KeyedProcessFunction` on hashmap, in thread and process mode.

Sides in Spark run in one session, in turn, after a small run of each. Flink's start a JVM for each run. Each side runs over
all rows and over a quarter of them; *rows/s* are those of three quarters of the rows in the difference of the two times, so
what a start takes isn't in it. The slow sides get a part of the rows and of the keys: PyFlink's thread mode a quarter,
transformWithState a tenth, PyFlink's process mode a fortieth. PyFlink needs a Python of its own, transformWithState needs
protobuf: `make peers` brings both.
"""

import argparse
import datetime
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from keyed_count import machine
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from pystate.common import Row, Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.runtime.driver.embedded import LocalExecutor

FILES = 8
SCHEMA = "key STRING, number DOUBLE"
OUTPUT = "key STRING, count LONG, total DOUBLE"
TOTALS = Types.ROW_NAMED(["key", "count", "total"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
SPARK_TOTALS = StructType(
    [StructField("key", StringType()), StructField("count", LongType()), StructField("total", DoubleType())]
)
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FLINK = Path(__file__).with_name("peers_flink.py")


class Totals(KeyedProcessFunction):
    """pystate's side."""

    def open(self, runtime_context):
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.DOUBLE()])))

    def process_element(self, value, ctx):
        count, total = self.totals.value() or (0, 0.0)
        count, total = count + 1, total + value.number
        self.totals.update((count, total))
        yield Row(key=value.key, count=count, total=total)


class SparkTotals(StatefulProcessor):
    """transformWithState's side."""

    def init(self, handle):
        state = StructType([StructField("count", LongType()), StructField("total", DoubleType())])
        self.totals = handle.getValueState("totals", state)

    def handleInputRows(self, key, rows, timer_values):
        for row in rows:
            count, total = self.totals.get() or (0, 0.0)
            count, total = count + 1, total + row.number
            self.totals.update((count, total))
            yield pyspark.sql.Row(key=key[0], count=count, total=total)

    def close(self):
        return None


def identity(batches):
    """Return the input unchanged."""
    return batches


def bare_loop(batches):
    """Count and add in a dict."""
    import pyarrow as pa

    totals = {}
    for batch in batches:
        keys, counts, sums = batch.column(0).to_pylist(), [], []
        for key, number in zip(keys, batch.column(1).to_pylist(), strict=True):
            count, total = totals.get(key, (0, 0.0))
            count, total = count + 1, total + number
            totals[key] = count, total
            counts.append(count)
            sums.append(total)
        columns = [batch.column(0), pa.array(counts, pa.int64()), pa.array(sums)]
        yield pa.RecordBatch.from_arrays(columns, ["key", "count", "total"])


def source(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).csv(str(folder))


def to_noop(frame, epoch):
    frame.write.format("noop").mode("overwrite").save()


class Sides:
    """What runs in one session of Spark."""

    def __init__(self, spark, scratch, parallelism):
        self.spark = spark
        self.scratch = scratch
        self.parallelism = parallelism

    def _run(self, frame, mode="append"):
        location = str(self.scratch / f"query-{time.time_ns()}")
        stream = frame.writeStream.outputMode(mode).foreachBatch(to_noop).option("checkpointLocation", location)
        stream.trigger(availableNow=True).start().awaitTermination()

    def floor(self, function, schema):
        def run(folder):
            route = f.expr(f"cast(pmod(hash(key), {self.parallelism}) AS INT)")
            routed = source(self.spark, folder).repartitionById(self.parallelism, route)
            self._run(routed.mapInArrow(function, schema))

        return run

    def aggregation(self, folder):
        self._run(source(self.spark, folder).groupBy("key").agg(f.count("*"), f.sum("number")), "update")

    def transform_with_state(self, folder):
        grouped = source(self.spark, folder).groupBy("key")
        self._run(grouped.transformWithState(SparkTotals(), SPARK_TOTALS, outputMode="Update", timeMode="None"), "update")

    def pystate(self, backend, totals=lambda keyed: keyed.process(Totals(), TOTALS), mini_batch="false"):
        def run(folder):
            env = StreamExecutionEnvironment.get_execution_environment(
                Configuration({"execution.mini-batch.enabled": mini_batch})
            )
            env.set_state_backend(backend)
            rows = env.from_data_frame(source(env.spark, folder), "rows", bounded=True).uid("rows")
            totals(rows.key_by("key")).uid("totals").for_each_batch(to_noop)
            env.execute("peers")

        return run


def summed(keyed):
    return keyed.sum("number")


def timed(run):
    def seconds(folder):
        started = time.perf_counter()
        run(folder)
        return time.perf_counter() - started

    return seconds


def flink(python, kind, backend, parallelism):
    """Return a side that runs in Flink, and tells how long the job took without the start of its JVM."""

    def seconds(folder):
        # Flink starts "python"
        path = f"{Path(python).absolute().parent}{os.pathsep}{os.environ['PATH']}"
        command = [str(python), str(FLINK), folder.as_uri(), kind, backend, str(parallelism)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
        if done.returncode:
            sys.exit(f"{kind} on {backend}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return float(done.stdout.rpartition("seconds ")[2])

    return seconds


def write_rows(folder, rows, keys):
    folder.mkdir()
    per_file = rows // FILES
    for number in range(FILES):
        lines = (f"key-{(i * 7919) % keys},{i % 100}.5" for i in range(number * per_file, (number + 1) * per_file))
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")


def all_sides(spark, scratch, options):
    """Return the sides by name: what runs them, whether they run in Spark, and which part of the rows they get."""
    of_spark = Sides(spark, scratch, options.parallelism)
    sides = {
        "floor: identity mapInArrow": (timed(of_spark.floor(identity, SCHEMA)), True, 1),
        "floor: bare Python loop": (timed(of_spark.floor(bare_loop, OUTPUT)), True, 1),
        "Spark groupBy().agg, RocksDB": (timed(of_spark.aggregation), True, 1),
        "pystate, hashmap": (timed(of_spark.pystate(HashMapStateBackend())), True, 1),
        "pystate, rocksdb": (timed(of_spark.pystate(EmbeddedRocksDBStateBackend())), True, 1),
        "pystate, sum(), hashmap": (timed(of_spark.pystate(HashMapStateBackend(), summed)), True, 1),
        "pystate, sum(), rocksdb": (timed(of_spark.pystate(EmbeddedRocksDBStateBackend(), summed)), True, 1),
        "pystate, sum() per epoch, hashmap": (timed(of_spark.pystate(HashMapStateBackend(), summed, "true")), True, 1),
        "pystate, sum() per epoch, rocksdb": (
            timed(of_spark.pystate(EmbeddedRocksDBStateBackend(), summed, "true")),
            True,
            1,
        ),
        "transformWithState, Row": (timed(of_spark.transform_with_state), True, 10),
    }
    for backend, state in (("hashmap", HashMapStateBackend), ("rocksdb", EmbeddedRocksDBStateBackend)):
        for name, mini_batch in (("sum()", "false"), ("sum() per epoch", "true")):
            sides[f"pystate, {name}, {backend}"] = timed(of_spark.pystate(state(), summed, mini_batch)), True, 1
    for name, kind, backend, share in (
        ("Flink SQL, hashmap", "sql", "hashmap", 1),
        ("Flink SQL, rocksdb", "sql", "rocksdb", 1),
        ("PyFlink, thread mode", "thread", "hashmap", 4),
        ("PyFlink, process mode", "process", "hashmap", 40),
    ):
        if options.pyflink:
            sides[name] = flink(options.pyflink, kind, backend, options.parallelism), False, share
    return {name: side for name, side in sides.items() if any(word in name for word in options.only)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pyflink", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of sides")
    parser.add_argument("--record", type=Path, help="a file that the table is written to")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration(
        {
            "parallelism.default": str(options.parallelism),
            "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        }
    )
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    load = os.getloadavg()[1]
    try:
        sides = all_sides(spark, root, options)
        shares = {name: share for name, (_, _, share) in sides.items()}
        write_rows(root / "small", 2_000, 100)
        for share in sorted(set(shares.values())):
            write_rows(root / f"all-{share}", options.rows // share, options.keys // share)
            write_rows(root / f"quarter-{share}", options.rows // share // 4, options.keys // share)
        for run, in_spark, _ in sides.values():
            if in_spark:
                run(root / "small")
        whole, quarter = ({name: [] for name in sides} for _ in range(2))
        for _ in range(options.rounds):
            for name, (run, _, _) in sides.items():
                quarter[name].append(run(root / f"quarter-{shares[name]}"))
                whole[name].append(run(root / f"all-{shares[name]}"))
                print(f"{name}: {quarter[name][-1]:.1f} s, {whole[name][-1]:.1f} s", file=sys.stderr, flush=True)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    table = report(options, shares, whole, quarter, load)
    print(table, end="")
    if options.record:
        options.record.write_text(table)


def report(options, shares, whole, quarter, load):
    """Return the table."""
    rates = {}
    for name, share in shares.items():
        seconds = statistics.median(whole[name]) - statistics.median(quarter[name])
        rates[name] = options.rows // share * 0.75 / seconds if seconds > 0 else None
    ours = rates.get("pystate, hashmap")
    arguments = f"--rows {options.rows} --keys {options.keys} --parallelism {options.parallelism} --rounds {options.rounds}"
    lines = [
        f"`python benchmarks/peers.py {arguments}`, {datetime.datetime.now(datetime.timezone.utc).date()}",
        "",
        f"{machine()}; load average {load:.1f} at the start, {os.getloadavg()[1]:.1f} at the end",
        "",
        "| side | rows | whole run, s | rows/s | pystate on hashmap is ... times as fast |",
        "|---|---|---|---|---|",
    ]
    for name, rate in sorted(rates.items(), key=lambda one: -(one[1] or 0)):
        beside = "" if ours is None or rate is None else f"{ours / rate:.2f}"
        rate = "too few rows to tell" if rate is None else f"{rate:,.0f}"
        rows = options.rows // shares[name]
        lines.append(f"| {name} | {rows:,} | {statistics.median(whole[name]):.1f} | {rate} | {beside} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""Rows per second of the state processor: savepoints read as DataFrames, and written from them.

    python benchmarks/snapshots/state_processor.py [ENTRIES] [ROUNDS] [--only WORDS]

Written are a value state of LONG by STRING keys, from columns and by a bootstrap function; read are states of 1,000,000
ENTRIES each: values of LONG, of a ROW and with a time to live, a list with four elements to a key, a map with four entries
to a key, from a canonical savepoint (that of both backends is the same), and the values from a RocksDB's own files. The
session is warm. Seconds are of the wall, CPU seconds of this process and of all below it (the JVM and its Python workers);
the best of ROUNDS (2).
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from pyspark.sql import functions as F

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.time import Time
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.metadata_file import read_metadata, write_metadata
from pystate.core.snapshot.operator_state import OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.spark.sessions.session import create_session
from pystate.state_processor import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateColumn,
)

MAX_PARALLELISM = 128
PAIR = Types.ROW_NAMED(["word", "price"], [Types.STRING(), Types.DOUBLE()])
TTL = StateTtlConfig.new_builder(Time.hours(1)).build()
COUNT = ValueStateDescriptor("count", Types.LONG())
ROW = ValueStateDescriptor("row", PAIR)
TIMED = ValueStateDescriptor("timed", Types.LONG())
TIMED.enable_time_to_live(TTL)
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())
TICKS = os.sysconf("SC_CLK_TCK")


class Load(KeyedStateBootstrapFunction):
    """Writes a value for each element."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update(value.value)


class Look(KeyedStateReaderFunction):
    """Reads a value for each key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def read_key(self, key, ctx):
        yield key, self.count.value()


def processor_seconds():
    """Return the processor time of this process and of all that it has begun, those that ended too."""
    parents, used = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)], used[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used.get(pid, 0) for pid in mine) / TICKS


def native_copy(folder, path):
    """Return a savepoint with the same state in RocksDB's own files."""
    source = SnapshotLocation(path)
    metadata = read_metadata(source.read_metadata(), source.uri)
    (operator,) = (one for one in metadata.operators if one.uid == "count")
    target = SnapshotLocation(str(folder / "native"))
    target.create()
    subtasks = {}
    for index, subtask in operator.subtasks.items():
        (handle,) = subtask.keyed_state
        work = tempfile.mkdtemp(dir=folder)
        backend = create_state_backend(
            "rocksdb",
            key_codec=KeyCodec(Types.STRING()),
            key_group_range=handle.key_group_range,
            max_parallelism=MAX_PARALLELISM,
            working_directory=work,
        )
        snapshots = KeyedSnapshots(backend)
        snapshots.restore(RestoredOperator(source.uri, [handle]))
        backend.get_partitioned_state(COUNT)
        upload = snapshots.freeze(1, None, native=True)
        subtasks[index] = OperatorSubtaskState([upload.write(target, f"{index}", 0)])
        upload.release()
        backend.close()
        shutil.rmtree(work)
    native = replace(metadata, format=SavepointFormatType.NATIVE, operators=[replace(operator, subtasks=subtasks)])
    target.write_metadata(write_metadata(native))
    return str(folder / "native")


class Bench:
    """Runs what is asked for."""

    def __init__(self, spark, folder, entries, rounds, only):
        self.spark, self.folder, self.entries, self.rounds, self.only = spark, folder, entries, rounds, only
        self.results = []

    def time(self, name, work):
        """Time a side."""
        if not all(word in name for word in self.only):
            return
        best = None
        for number in range(self.rounds):
            cpu, started = processor_seconds(), time.perf_counter()
            work(number)
            took = time.perf_counter() - started, processor_seconds() - cpu
            best = took if best is None else min(best, took)
        self.results.append((name, *best))
        print(f"{name}: {best[0]:.2f} s, {best[1]:.2f} CPU s", file=sys.stderr, flush=True)

    def noop(self, frame):
        """Read a frame."""
        frame.write.format("noop").mode("overwrite").save()

    def write(self):
        """Time the ways to write; return a savepoint with all states."""
        frame = self.spark.range(0, self.entries, 1, 4).select(
            F.format_string("key-%010d", "id").alias("key"), F.col("id").alias("value")
        )
        frame.write.parquet(str(self.folder / "input"))
        rows = self.spark.read.parquet(str(self.folder / "input"))

        def written(name, transformation):
            def run(number):
                writer = SavepointWriter.new_savepoint(self.spark, MAX_PARALLELISM)
                writer.with_operator("count", transformation, parallelism=2).write(str(self.folder / f"{name}-{number}"))

            return run

        warm = OperatorTransformation.states_from_frame(rows.limit(1_000), "key", {"count": (COUNT, "value")})
        written("warm", warm)(0)
        columns = OperatorTransformation.states_from_frame(rows, "key", {"count": (COUNT, "value")})
        self.time("write LONG values, states_from_frame", written("columns", columns))
        function = OperatorTransformation.bootstrap_with(rows).key_by("key").transform(Load())
        self.time("write LONG values, KeyedStateBootstrapFunction", written("function", function))
        return self.all_states(rows)

    def all_states(self, rows):
        """Write a savepoint with all states."""
        fours = rows.withColumn("four", F.expr("value div 4")).withColumn("place", F.expr("value % 4"))
        by_four = fours.withColumn("key", F.format_string("key-%010d", "four"))
        pairs = rows.withColumn("row", F.struct(F.col("key").alias("word"), (F.col("value") / 2).alias("price")))
        mapped = by_four.withColumn("name", F.format_string("name-%d", "place"))
        states = {
            "count": (rows, {"count": (COUNT, "value")}),
            "row": (pairs, {"row": (ROW, "row")}),
            "timed": (rows, {"timed": (TIMED, "value")}),
            "list": (by_four, {"list": (LIST, StateColumn("value", index="place"))}),
            "map": (mapped, {"map": (MAP, StateColumn("value", map_key="name"))}),
        }
        writer = SavepointWriter.new_savepoint(self.spark, MAX_PARALLELISM)
        for uid, (frame, columns) in states.items():
            writer.with_operator(uid, OperatorTransformation.states_from_frame(frame, "key", columns), parallelism=2)
        return writer.write(str(self.folder / "all"))

    def read(self, path):
        """Time the ways to read."""
        savepoint = SavepointReader.read(self.spark, path)
        names = {"count": "LONG values", "row": "ROW values", "timed": "values with a time to live"}
        names |= {"list": "lists of 4", "map": "maps of 4"}
        for state, what in names.items():
            frame = savepoint.read_keyed_state(state, state)
            self.time(f"read {what}", lambda _, frame=frame: self.noop(frame))
        for state in ("list", "map"):
            frame = savepoint.read_keyed_state(state, state, per_entry=True)
            self.time(f"read {names[state]}, per_entry", lambda _, frame=frame: self.noop(frame))
        self.time("read LONG values, raw", lambda _: self.noop(savepoint.read_keyed_state("count", "count", raw=True)))
        native = SavepointReader.read(self.spark, native_copy(self.folder, path))
        self.time("read LONG values, RocksDB's files", lambda _: self.noop(native.read_keyed_state("count", "count")))
        columns = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
        looked = savepoint.read_keyed_state("count", Look(), output_type=columns)
        self.time("read LONG values, KeyedStateReaderFunction", lambda _: self.noop(looked))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="?", type=int, default=1_000_000)
    parser.add_argument("rounds", nargs="?", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        folder = Path(root)
        spark = create_session(
            Configuration({"pystate.spark.master": "local[2,4]"}), "state processor", folder / "spark.log"
        )
        bench = Bench(spark, folder, options.entries, options.rounds, options.only)
        bench.read(bench.write())
        spark.stop()
    print(machine())
    print(f"{options.entries:,} entries, load average {os.getloadavg()[0]:.1f}\n")
    print("| | s | rows/s | CPU s | microseconds of CPU a row |")
    print("|---|---|---|---|---|")
    for name, took, cpu in bench.results:
        print(f"| {name} | {took:.2f} | {options.entries / took:,.0f} | {cpu:.2f} | {cpu / options.entries * 1e6:.2f} |")


if __name__ == "__main__":
    main()

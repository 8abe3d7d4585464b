"""End-to-end duration of checkpoints against their interval, on a job under load; and what they cost the job.

    python benchmarks/checkpoint_duration.py [KEYS] [SECONDS] [ROWS]

A job at parallelism 2 reads ROWS (20,000) rows an epoch, as fast as it can, and keeps a value of 200 bytes for each of KEYS
(200,000) keys. When all keys are there, it runs for SECONDS (30) with one interval, then anew with the next. Reported are
the durations that the coordinator measured (trigger to `_metadata`), the share of the time in which a checkpoint was under
way, and the rows per second next to the same job without checkpoints.
"""

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from keyed_count import machine
from pyspark.sql import functions as F

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.errors import JobCancelledError
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.runtime.driver.embedded import LocalExecutor

INTERVALS_MS = (1_000, 3_000, 10_000)
KINDS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb, full": {"state.backend.type": "rocksdb"},
    "rocksdb, incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
}


class Keep(KeyedProcessFunction):
    """Keeps the last 200 bytes of a key."""

    def open(self, runtime_context):
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value, ctx):
        old = self.kept.value()
        self.kept.update(f"{value.value:0200}")
        if old is None:
            yield 1


class Runner(LocalExecutor):
    """A job in a thread of this process."""

    def __init__(self, spark, configuration, home):
        super().__init__(configuration, home)
        self._session = spark
        self.master = None

    def started(self, master):
        self.master = master


def program(spark, keys, rows):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    frame = source.select("value", (F.col("value") * 7919 % keys).alias("key"))
    env.from_data_frame(frame, "rows").key_by("key").process(Keep(), Types.INT()).uid("keep").for_each_batch(lambda *_: None)
    env.execute("under load")


def run(spark, root, options, keys, seconds, rows):
    """Return rows per second, and the statistics of the checkpoints of the measured time."""
    base = {
        "parallelism.default": "2",
        "execution.checkpointing.dir": str(root / "checkpoints"),
        "web.checkpoints.history": "1000",
        "restart-strategy.type": "none",
    }
    runner = Runner(spark, Configuration({**base, **options}), PystateHome(root / f"home-{time.time_ns()}"))
    errors = []

    def body():
        register_executor(runner)
        try:
            program(spark, keys, rows)
        except JobCancelledError:
            pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    wait_for(errors, lambda: records(runner) > keys * 1.2)
    started, before = time.time(), records(runner)
    time.sleep(seconds)
    rate = (records(runner) - before) / (time.time() - started)
    history = runner.master.coordinator.statistics()["history"]
    runner.master.cancel()
    thread.join()
    if errors:
        raise errors[0]
    done = [one for one in history if one["status"] == "COMPLETED" and one["trigger_timestamp"] >= started * 1000]
    return rate, done


def records(runner):
    if runner.master is None:
        return 0
    return runner.master.coordinator.state.progress()["records_in"] or 0


def wait_for(errors, condition):
    deadline = time.monotonic() + 180
    while not condition():
        if errors:
            raise errors[0]
        if time.monotonic() > deadline:
            sys.exit("timed out")
        time.sleep(0.05)


def main(keys=200_000, seconds=30, rows=20_000):
    root = Path(tempfile.mkdtemp(prefix="checkpoint-duration-"))
    configuration = Configuration({"parallelism.default": "2"})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    spark = executor.spark_session(configuration)
    sys.stdout, printed = open(os.devnull, "w"), sys.stdout
    table = []
    for name, options in KINDS.items():
        alone, _ = run(spark, root, options, keys, seconds, rows)
        for interval in INTERVALS_MS:
            chosen = {**options, "execution.checkpointing.interval": f"{interval} ms"}
            rate, done = run(spark, root, chosen, keys, seconds, rows)
            table.append((name, interval, rate, rate / alone, done))
    sys.stdout = printed
    spark.stop()
    shutil.rmtree(root, ignore_errors=True)
    print(f"{machine()}\n{keys:,} keys of 200 bytes, parallelism 2, {rows:,} rows an epoch, {seconds} s each\n")
    print(
        "| | interval s | checkpoints | median ms | most ms | written MB | median sync ms | median async ms | under way "
        "| rows/s | of the rows/s without |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for name, interval, rate, share, done in table:
        durations = [one["end_to_end_duration"] for one in done]
        written = statistics.median(one["checkpointed_size"] for one in done) / 1e6
        sync, async_ = (statistics.median(one[part] for one in done) for part in ("sync_duration", "async_duration"))
        busy = sum(durations) / 1000 / seconds
        print(
            f"| {name} | {interval / 1000:g} | {len(done)} | {statistics.median(durations):,.0f} | {max(durations):,} "
            f"| {written:.1f} | {sync:.0f} | {async_:,.0f} | {busy:.2f} | {rate:,.0f} | {share:.2f} |"
        )


if __name__ == "__main__":
    main(*(int(argument.replace("_", "")) for argument in sys.argv[1:]))

"""What exactly-once costs in files: rows a second of `FileSink` beside a plain sink, and the time from record to visible.

    python benchmarks/connectors/file_sink.py [--rows N] [--turns N] [--folder FOLDER]

Each turn writes all rows in each way, in turn, with a checkpoint for each 50,000 rows; writer and committer are driven as a
slot drives them, without Spark. *plain*: a sink without a committer that appends lines to one file and flushes it at each
checkpoint, at-least-once and visible at once, without an fsync. *open*: a file stays open over checkpoints. Then a writer at
a steady rate, with a checkpoint at each interval: how long after it was written each row could be read.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pystate.common import Encoder, Types
from pystate.connectors.sink import Sink, SinkWriter
from pystate.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from pystate.datastream.formats.csv import CsvBulkWriters, CsvSchema
from pystate.datastream.formats.parquet import ParquetBulkWriters
from pystate.testing import SinkTestHarness

PER_CHECKPOINT = 50_000
ROW = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
WAYS = ("plain", "text", "text, open", "CSV", "Parquet")


class Plain(Sink):
    def __init__(self, path):
        self.path = path

    def create_writer(self, context):
        return PlainWriter(self.path)


class PlainWriter(SinkWriter):
    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a")

    def write(self, element, context):
        self.file.write(f"{element}\n")

    def flush(self, end_of_input):
        self.file.flush()

    def close(self):
        self.file.close()


def sink_of(way, folder):
    if way == "plain":
        return Plain(folder / "lines")
    path = str(folder)
    if way == "CSV":
        schema = CsvSchema.builder().add_string_column("word").add_number_column("count").build()
        builder = FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(schema))
    elif way == "Parquet":
        builder = FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(ROW))
    else:
        builder = FileSink.for_row_format(path, Encoder.simple_string_encoder())
        if way == "text":
            builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def run(way, folder, rows):
    """Return rows a second, the processor's microseconds for each, and the seconds that each checkpoint took."""
    elements = [(f"word-{number % 1000}", number) for number in range(rows)]
    if way in ("plain", "text", "text, open"):
        elements = [f"{word},{count}" for word, count in elements]
    ends = []
    with SinkTestHarness(sink_of(way, folder)) as harness:
        harness.open()
        begin, used = time.perf_counter(), time.process_time()
        for checkpoint, start in enumerate(range(0, rows, PER_CHECKPOINT), 1):
            harness.process_elements(elements[start : start + PER_CHECKPOINT])
            before = time.perf_counter()
            harness.snapshot(checkpoint)
            harness.notify_of_completed_checkpoint(checkpoint)
            ends.append(time.perf_counter() - before)
        return rows / (time.perf_counter() - begin), (time.process_time() - used) / rows * 1e6, ends


def visible_after(interval_s, folder, seconds):
    """Return how long each row took until it could be read, in seconds."""
    taken, waiting = [], []
    with SinkTestHarness(sink_of("text", folder)) as harness:
        harness.open()
        end = time.perf_counter() + seconds
        due, checkpoint = time.perf_counter() + interval_s, 0
        while time.perf_counter() < end:
            waiting.append(time.perf_counter())
            harness.process_element(f"row {len(waiting)}")
            time.sleep(0.005)
            if time.perf_counter() >= due:
                checkpoint += 1
                due += interval_s
                harness.snapshot(checkpoint)
                harness.notify_of_completed_checkpoint(checkpoint)
                now = time.perf_counter()
                taken += [now - begun for begun in waiting]
                waiting.clear()
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    rates, ends, processor = ({way: [] for way in WAYS} for _ in range(3))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as root:
        for turn in range(arguments.turns):
            for way in WAYS:
                rate, used, seconds = run(way, Path(root) / f"{way}-{turn}", arguments.rows)
                rates[way].append(rate)
                processor[way].append(used)
                ends[way] += seconds
        plain = statistics.median(rates["plain"])
        checkpoint = "of a checkpoint of 50,000 rows: snapshot and commit, ms, median"
        print(f"| way | rows/s, median | beside plain | processor, us for a row, least | {checkpoint} |")
        print("|---|---|---|---|---|")
        for way in WAYS:
            rate = statistics.median(rates[way])
            share = f"{rate / plain:.2f} | {min(processor[way]):.2f}"
            print(f"| {way} | {rate:,.0f} | {share} | {statistics.median(ends[way]) * 1000:.0f} |")
        print("\n| checkpoint interval, s | record to visible, s: median | longest |")
        print("|---|---|---|")
        for interval in (0.5, 1.0, 2.0):
            taken = visible_after(interval, Path(root) / str(interval), 6)
            print(f"| {interval} | {statistics.median(taken):.2f} | {max(taken):.2f} |")


if __name__ == "__main__":
    main()

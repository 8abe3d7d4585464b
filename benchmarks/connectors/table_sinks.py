"""What tables cost beside files: sinks beside `FileSink`, sources beside `FileSource`, and rows that replace others.

    python benchmarks/connectors/table_sinks.py [--rows N] [--turns N] [--folder FOLDER]

Each turn writes all rows in each way, in turn, as Parquet, with a checkpoint for each 100,000 rows; writer and committer are
driven as a slot drives them, without Spark. Then each way's rows are read again, as one subtask reads them. Upserts: a table
of all rows in ten files by ranges of the key, and checkpoints that replace some rows of one file, or of all files.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pystate.common import Row, Types
from pystate.connectors.file_system.formats.parquet_format import ParquetFormat
from pystate.connectors.file_system.split_file_source import SplitFileSource
from pystate.datastream.connectors.delta import DeltaSink, DeltaSource
from pystate.datastream.connectors.file_system import BucketAssigner, FileSink
from pystate.datastream.connectors.iceberg import IcebergSink, IcebergSource
from pystate.datastream.formats.parquet import ParquetBulkWriters
from pystate.testing import SinkTestHarness, SourceTestHarness

PER_CHECKPOINT = 100_000
ROW = Types.ROW_NAMED(["word", "n", "price"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
WAYS = ("FileSink", "DeltaSink", "IcebergSink")


def catalog(folder):
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def sink_of(way, folder, change=lambda builder: builder):
    folder.mkdir(parents=True, exist_ok=True)
    if way == "FileSink":
        builder = FileSink.for_bulk_format(str(folder), ParquetBulkWriters.for_row_type(ROW))
        return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    if way == "DeltaSink":
        return change(DeltaSink.for_table(str(folder / "table")).with_row_type(ROW)).build()
    snappy = {"write.parquet.compression-codec": "snappy"}  # as the others do
    builder = IcebergSink.for_table("db.t").with_catalog("tests", catalog(folder)).with_row_type(ROW)
    return change(builder.with_table_properties(snappy)).build()


def source_of(way, folder):
    if way == "FileSink":
        return SplitFileSource((str(folder),), None, ParquetFormat(ROW), "files")
    if way == "DeltaSink":
        return DeltaSource.for_bounded_row_data(str(folder / "table")).with_row_type(ROW).build()
    return IcebergSource.for_table("db.t").with_catalog("tests", catalog(folder)).with_row_type(ROW).build()


def written(sink, rows, per_checkpoint, attempt=0):
    """Write rows; return the seconds, and those that each checkpoint took."""
    ends = []
    with SinkTestHarness(sink, attempt=attempt) as harness:
        harness.open()
        begin = time.perf_counter()
        for checkpoint, start in enumerate(range(0, len(rows), per_checkpoint), 1):
            harness.process_elements(rows[start : start + per_checkpoint])
            before = time.perf_counter()
            harness.snapshot(checkpoint)
            harness.notify_of_completed_checkpoint(checkpoint)
            ends.append(time.perf_counter() - before)
        return time.perf_counter() - begin, ends


def read(source):
    with SourceTestHarness(lambda: source, output_type=ROW) as harness:
        begin = time.perf_counter()
        count = 0
        while not harness.ended:
            count += len(harness.run_epoch())
        return count, time.perf_counter() - begin


def upserts(way, folder, rows, keys, spread):
    """Return the seconds of a checkpoint that replaces so many rows, of one file or of all."""
    written(sink_of(way, folder), rows, len(rows) // 10)
    step = len(rows) // keys if spread else 1
    changed = [Row(word="new", n=number * step, price=0.0) for number in range(keys)]
    sink = sink_of(way, folder, lambda builder: builder.with_upsert_by("n"))
    _, (took,) = written(sink, changed, keys, 1)  # of a later attempt: the checkpoint isn't one that was committed
    count, _ = read(source_of(way, folder))
    assert count == len(rows), (way, count)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    rows = [Row(word=f"word-{number % 1000}", n=number, price=number / 7) for number in range(arguments.rows)]
    times, ends, reads = ({way: [] for way in WAYS} for _ in range(3))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as root:
        for turn in range(arguments.turns):
            for way in WAYS:
                folder = Path(root) / f"{way}-{turn}"
                seconds, checkpoints = written(sink_of(way, folder), rows, PER_CHECKPOINT)
                times[way].append(seconds)
                ends[way] += checkpoints
                count, seconds = read(source_of(way, folder))
                assert count == len(rows), (way, count)
                reads[way].append(seconds)
        print("| way | rows/s written | time beside FileSink | a checkpoint, ms | rows/s read | time beside FileSource |")
        print("|---|---|---|---|---|---|")
        base, base_read = (statistics.median(each["FileSink"]) for each in (times, reads))
        for way in WAYS:
            took, taken = statistics.median(times[way]), statistics.median(reads[way])
            wrote, found = f"{len(rows) / took:,.0f}", f"{len(rows) / taken:,.0f}"
            end = f"{statistics.median(ends[way]) * 1000:.0f}"
            print(f"| {way} | {wrote} | {took / base:.2f} | {end} | {found} | {taken / base_read:.2f} |")
        print("\n| upserts of one checkpoint | keys | s, in one file | s, over all files |")
        print("|---|---|---|---|")
        for way in WAYS[1:]:
            for keys in (100, 1000, 10_000):
                each = [upserts(way, Path(root) / f"{way}-{keys}-{spread}", rows, keys, spread) for spread in (False, True)]
                print(f"| {way} | {keys:,} | {each[0]:.2f} | {each[1]:.2f} |")


if __name__ == "__main__":
    main()

"""What a checkpoint of a file source costs after many files: the copy of Spark's logs against Spark's own compacted log.

    python benchmarks/connectors/source_log.py [FILES] [PER_BATCH]

Spark's file source writes a log entry per batch with the names of its files, and compacts all entries into one file every
tenth batch; the compacted log names every file ever read. A checkpoint copies the last compacted log and the entries after
it up to its own batch. The logs are laid out as Spark 4.3 writes them (one JSON line per file); no Spark is started. In the
same run the compacted log is copied as a plain file, synced.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory, SparkSource, pack_archive


def lay_out(root, files, per_batch):
    batches = -(-files // per_batch)
    source = root / "sources" / "0"
    for folder in (source, root / "offsets", root / "commits"):
        folder.mkdir(parents=True)
    (root / "metadata").write_text('{"id":"7d1f7b9e-0000-4000-8000-000000000000"}')
    lines = []
    for batch in range(batches):
        entry = [
            json.dumps({"path": f"file:///data/incoming/2026/part-{n:08}.txt", "timestamp": 1795282042719, "batchId": batch})
            for n in range(batch * per_batch, min(files, (batch + 1) * per_batch))
        ]
        lines += entry
        compact = batch % 10 == 9
        if compact:
            (source / f"{batch}.compact").write_text("\n".join(["v1", *lines]))
        elif batch > batches - 30:
            (source / str(batch)).write_text("\n".join(["v1", *entry]))
    last = batches - 1
    for number in (last - 1, last):
        (root / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{number}}}')
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    newest = max(source.glob("*.compact"), key=lambda path: int(path.stem))
    return last, newest


def timed(call):
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best * 1000


def synced_write(path, data):
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def main():
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    per_batch = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        last, newest = lay_out(root / "spark", files, per_batch)
        directory = SparkCheckpointDirectory(root / "spark", [SparkSource("source", 0, 0)])

        def checkpoint():
            synced_write(root / "archive", pack_archive(directory.capture(last) | directory.capture_commit(last)))

        def plain_copy():
            synced_write(root / "copy", newest.read_bytes())

        ours, plain = timed(checkpoint), timed(plain_copy)
        size, compacted = (root / "archive").stat().st_size, newest.stat().st_size
        shutil.rmtree(root / "spark")
    print(machine())
    print("| files | Spark's compacted log | in a checkpoint | ratio | copy of the log | part of the checkpoint | ratio |")
    print("|---|---|---|---|---|---|---|")
    sizes = f"{compacted / 1e6:.2f} MB | {size / 1e6:.2f} MB | {size / compacted:.2f}"
    print(f"| {files:,} | {sizes} | {plain:.1f} ms | {ours:.1f} ms | {ours / plain:.2f} |")


if __name__ == "__main__":
    main()

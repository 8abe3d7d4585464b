"""Full snapshots and restores of each backend, next to a plain copy of the same bytes, and what a snapshot costs the job.

    python benchmarks/snapshots/full_snapshot.py [KEYS] [ROUNDS]

One backend with KEYS (1,000,000) values of 200 bytes of which half compress, driven as a slot drives it, without Spark;
storage and working folder are on the disk of the temporary folder. The
job's cost is measured by a thread that reads and updates random keys all the while, an epoch of 5,000 records after another:
its records per second before and during the asynchronous part, and the epoch in which the barrier stands.
"""

import gc
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from incremental_checkpoint import MAX_PARALLELISM, Bench, megabytes, plain_copy

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

from pystate.common import Types
from pystate.core.api.state import ValueStateDescriptor

EPOCH = 5_000
BEFORE_S = 5.0


class Load(threading.Thread):
    """Works on random keys, and notes when each epoch ended."""

    def __init__(self, bench, keys):
        super().__init__(daemon=True)
        self.backend, self.codec, self.keys = bench.backends[0], bench.codec, keys
        self.between_epochs = threading.Lock()
        self.stopped = False
        self.ends = []

    def run(self):
        state = self.backend.get_partitioned_state(ValueStateDescriptor("value", Types.STRING()))
        chance, group_of, backend = random.Random(0), self.codec.key_group, self.backend
        while not self.stopped:
            with self.between_epochs:
                for _ in range(EPOCH):
                    key = chance.randrange(self.keys)
                    backend.set_current_key(key, group_of(key, MAX_PARALLELISM))
                    state.update(state.value()[::-1])
                backend.flush_epoch()
                self.ends.append(time.perf_counter())

    def rate(self, start, end):
        """Return records per second between two moments, by the epochs that ended there."""
        ends = [moment for moment in self.ends if start <= moment <= end]
        return EPOCH * (len(ends) - 1) / (ends[-1] - ends[0]) if len(ends) > 1 else float("nan")


def bench_of(root, side):
    """Return a backend, by the name of its side."""
    return Bench(root, 1, side)


def under_load(root, side, keys):
    """Return records/s before and during a snapshot, its synchronous and asynchronous seconds."""
    bench = bench_of(root, side)
    bench.write(range(keys))
    gc.collect()
    load = Load(bench, keys)
    load.start()
    time.sleep(BEFORE_S)
    with load.between_epochs:
        started = time.perf_counter()
        frozen = bench.snapshots[0].freeze(1, None)
        sync = time.perf_counter() - started
    began = time.perf_counter()
    bench.location.write_state("1-0", frozen.write_canonical, 0)
    ended = time.perf_counter()
    frozen.release()
    load.stopped = True
    load.join()
    before, during = load.rate(began - BEFORE_S, started), load.rate(began, ended)
    bench.close()
    return before, during, sync, ended - began


def at_rest(root, side, keys, rounds):
    """Return MB, and medians of seconds: sync, async, plain copy, restore, reading."""
    bench = bench_of(root, side)
    bench.write(range(keys))
    gc.collect()
    figures = []
    for number in range(1, rounds + 1):
        handles, sync, seconds = bench.checkpoint(number, incremental=False)
        copied = plain_copy(root, handles)
        figures.append((sync, seconds, copied))
    bench.close()
    restores = []
    for _ in range(rounds):
        new = bench_of(root, side)
        taken = new.restore(handles)
        new.close()
        restores.append((taken, plain_read(root, handles)))
    size = sum(handle.state_size for handle in handles)
    return size, *(statistics.median(column) for rows in (figures, restores) for column in zip(*rows, strict=True))


def plain_read(root, handles):
    """Read the snapshot's files as a yardstick; return seconds."""
    started = time.perf_counter()
    for handle in handles:
        with Path(root, "chk", handle.handle.path).open("rb") as file:
            while file.read(1 << 20):
                pass
    return time.perf_counter() - started


def main(keys, rounds):
    rows, dips = [], []
    for backend in ("hashmap", "rocksdb"):
        root = tempfile.mkdtemp(prefix="full-snapshot-")
        rows.append((backend, *at_rest(root, backend, keys, rounds)))
        dips.append((backend, *under_load(root, backend, keys)))
        shutil.rmtree(root)
    print(f"{machine()}\n{keys:,} keys of 200 bytes in one slot; medians of {rounds}\n")
    print("| backend | MB | sync ms | write s | plain copy s | write / copy | restore s | plain read s | restore / copy |")
    print("|---|---|---|---|---|---|---|---|---|")
    for backend, size, sync, seconds, copied, restored, read in rows:
        print(
            f"| {backend} | {megabytes(size)} | {sync * 1e3:.1f} | {seconds:.2f} | {copied:.2f} | {seconds / copied:.1f} "
            f"| {restored:.2f} | {read:.2f} | {restored / copied:.1f} |"
        )
    print("\n| backend | records/s before | during the snapshot | during / before | sync ms | async s |")
    print("|---|---|---|---|---|---|")
    for backend, before, during, sync, seconds in dips:
        share = during / before
        print(f"| {backend} | {before:,.0f} | {during:,.0f} | {share:.2f} | {sync * 1e3:.1f} | {seconds:.2f} |")


if __name__ == "__main__":
    main(*(int(argument.replace("_", "")) for argument in (*sys.argv[1:], *("1_000_000", "3")[len(sys.argv) - 1 :])))

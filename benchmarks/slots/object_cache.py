"""What RocksDB's object cache saves a slot that counts by key, without Spark.

    python benchmarks/slots/object_cache.py [--rounds N]

The function and the batches are those of `slot_throughput.py`: 100,000 keys, each once in ten batches. Epochs are
ten batches, or one: each access is the first one of its epoch. *sync* is the synchronous part of a canonical
snapshot at the end. Figures are processor time of the calling thread in the best round; the sides take turns.
"""

import argparse
import os
import platform
import random
import tempfile
import time

from slot_throughput import BATCHES, SlotSide, arrow_batches

from pystate.common import Types
from pystate.core.state.keys.keys import KeyCodec

SIZE = "state.backend.rocksdb.object-cache.size"
SIDES = {"hashmap": ("hashmap", {}), "rocksdb": ("rocksdb", {})}
SIDES |= {f"rocksdb, {size}": ("rocksdb", {SIZE: size}) for size in ("2 mb", "64 mb")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| records to an epoch | side | microseconds a record | sync, ms |")
    print("|---|---|---|---|")
    codec = KeyCodec(Types.STRING())
    words = [f"word-{number:08d}" for number in range(100_000)]
    random.Random(1).shuffle(words)
    batches = list(arrow_batches(words, codec))
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: SlotSide(backend, folder, None, options) for name, (backend, options) in SIDES.items()}
        for step in (BATCHES, 1):
            best, longest = dict.fromkeys(sides, float("inf")), dict.fromkeys(sides, 0.0)
            for number in range(arguments.rounds + 1):
                for name, side in sides.items():
                    spent = 0.0
                    for start in range(0, BATCHES, step):
                        started = time.thread_time()
                        side.epoch(batches[start : start + step])
                        spent += time.thread_time() - started
                    started = time.thread_time()
                    snapshot = side.chain.backend.snapshot()
                    sync = time.thread_time() - started
                    snapshot.release()
                    if number:  # the first round fills the state
                        best[name], longest[name] = min(best[name], spent), max(longest[name], sync)
            records = len(words) * step // BATCHES
            for name in sides:
                print(f"| {records:,} | {name} | {best[name] * 10:.2f} | {longest[name] * 1000:.1f} |", flush=True)
        for side in sides.values():
            side.close()


if __name__ == "__main__":
    main()

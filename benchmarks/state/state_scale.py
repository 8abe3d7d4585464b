"""What an access and an entry cost against the number of keys: a value of a LONG per STRING key, without Spark.

    python benchmarks/state/state_scale.py [--keys N ...] [--sides dict hashmap rocksdb] [--accesses N]

Each case is a process of its own. It writes all keys once, in epochs of 100,000; then it reads and writes random keys in
epochs of 10,000. Microseconds are processor time of the calling thread per key, epochs' ends included, the best third of
the epochs; *all threads* adds what RocksDB's own take. Bytes are those of the resident memory above an empty process, and
of RocksDB's files, per key. `dict` is one of objects, whose keys come as new ones each time.
"""

import argparse
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec

FILL_EPOCH, EPOCH = 100_000, 10_000
MAX_PARALLELISM = 128


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Dict:
    def __init__(self, folder):
        self.counts = {}

    def epoch(self, keys):
        counts = self.counts
        for key in keys:
            counts[key] = counts.get(key, 0) + 1

    def close(self):
        pass


class Backend:
    def __init__(self, name, folder):
        self.codec = KeyCodec(Types.STRING())
        self.backend = create_state_backend(
            name,
            key_codec=self.codec,
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=folder,
            configuration=Configuration({}),
        )
        self.state = self.backend.get_partitioned_state(ValueStateDescriptor("count", Types.LONG()))

    def epoch(self, keys):
        context, state, group_of = self.backend.key_context, self.state, self.codec.key_group
        groups = [group_of(key, MAX_PARALLELISM) for key in keys]
        self.backend.prefetch(keys, groups)
        for key, group in zip(keys, groups, strict=True):
            context.active_key = key
            context.active_key_group = group
            state.update((state.value() or 0) + 1)
        self.backend.limit_epoch(len(keys), 24 * len(keys))
        self.backend.flush_epoch()

    def close(self):
        self.backend.close()


def timed(epoch, keys):
    thread, process = time.thread_time(), time.process_time()
    epoch(keys)
    return (time.thread_time() - thread) / len(keys) * 1e6, (time.process_time() - process) / len(keys) * 1e6


def key(number):
    return f"key-{number * 7919 % 1_000_000_007:010d}"


def case(side, count, accesses):
    with tempfile.TemporaryDirectory() as folder:
        tested = Dict(folder) if side == "dict" else Backend(side, folder)
        tested.epoch([key(-number - 1) for number in range(100)])
        before, filled, numbers = resident(), [], random.Random(1)
        for start in range(0, count, FILL_EPOCH):
            filled.append(timed(tested.epoch, [key(number) for number in range(start, min(start + FILL_EPOCH, count))]))
        memory = resident() - before
        accessed = [
            timed(tested.epoch, [key(numbers.randrange(count)) for _ in range(EPOCH)]) for _ in range(accesses // EPOCH)
        ]
        stored = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file() and path.suffix == ".sst")
        tested.close()
    best = sorted(accessed)[: max(1, len(accessed) // 3)]
    fill = sum(one[0] for one in filled) / len(filled), sum(one[1] for one in filled) / len(filled)
    access, every = (sum(column) / len(best) for column in zip(*best, strict=True))
    files = f"{stored / count:.0f}" if stored else "-"
    print(f"{fill[0]:.2f} | {fill[1]:.2f} | {access:.2f} | {every:.2f} | {memory / count:.0f} | {files}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--sides", nargs="+", default=["dict", "hashmap", "rocksdb"])
    parser.add_argument("--accesses", type=int, default=200_000)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        case(asked.case[0], int(asked.case[1]), asked.accesses)
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}\n"
    )
    print("| side | keys | write new, us | all threads | read and write, us | all threads | bytes a key | of files |")
    print("|---|---|---|---|---|---|---|---|")
    for count in asked.keys:
        for side in asked.sides:
            command = [sys.executable, __file__, "--accesses", str(asked.accesses), "--case", side, str(count)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            print(f"| {side} | {count:,} | {output} |", flush=True)


if __name__ == "__main__":
    main()

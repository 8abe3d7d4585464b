"""Bytes and seconds of incremental checkpoints of the rocksdb backend next to full ones, and of the restores.

`next epoch` is how long an epoch of one record takes that begins right after the barrier: what it writes waits for the
links to RocksDB's files. Nothing else runs during the asynchronous part.

    python benchmarks/snapshots/incremental_checkpoint.py [KEYS] [ROUNDS]

One backend with KEYS (1,000,000) values of 200 bytes of which half compress; per round 1 % of them, at random, change. It
is driven as a slot drives it, without Spark; storage and working folder are on the disk of the temporary folder.
"""

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.key_groups import key_group_range
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.native_state import NativeUpload, SharedTarget
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

MAX_PARALLELISM = 128
EPOCH_KEYS = 50_000
THRESHOLD = 20 << 10


class Bench:
    """One operator at a parallelism."""

    def __init__(self, root, parallelism, backend="rocksdb", settings=None):
        self.codec = KeyCodec(Types.LONG())
        self.folder = tempfile.mkdtemp(dir=root)
        self.backends = [
            create_state_backend(
                backend,
                key_codec=self.codec,
                key_group_range=key_group_range(index, parallelism, MAX_PARALLELISM),
                max_parallelism=MAX_PARALLELISM,
                working_directory=self.folder,
                configuration=Configuration(settings or {}),
            )
            for index in range(parallelism)
        ]
        self.snapshots = [KeyedSnapshots(backend) for backend in self.backends]
        self.completed = ()
        self.waited = 0.0
        self.location = SnapshotLocation(f"{root}/chk")
        self.shared = SnapshotLocation(f"{root}/shared")
        for location in (self.location, self.shared):
            os.makedirs(location.uri.removeprefix("file:"), exist_ok=True)

    def write(self, keys):
        """Give the keys new values, an epoch after another."""
        descriptor = ValueStateDescriptor("value", Types.STRING())
        states = [backend.get_partitioned_state(descriptor) for backend in self.backends]
        for number, key in enumerate(keys, start=1):
            group = self.codec.key_group(key, MAX_PARALLELISM)
            index = next(i for i, backend in enumerate(self.backends) if group in backend.key_group_range)
            self.backends[index].set_current_key(key, group)
            states[index].update(os.urandom(50).hex() + "-" * 100)
            if number % EPOCH_KEYS == 0:
                self.flush()
        self.flush()

    def flush(self):
        for backend in self.backends:
            backend.flush_epoch()

    def checkpoint(self, number, incremental):
        """Take a checkpoint; return its handles, synchronous and asynchronous seconds."""
        started = time.perf_counter()
        target = SharedTarget(self.shared, f"{number}-", completed=self.completed) if incremental else None
        frozen = [one.freeze(number, target) for one in self.snapshots]
        frozen_at = time.perf_counter()
        self.waited = 0.0
        if incremental:
            self.write([number])
            self.waited = time.perf_counter() - frozen_at
        handles = []
        for index, one in enumerate(frozen):
            if isinstance(one, NativeUpload):
                handles.append(one.write(self.location, f"{number}-{index}", THRESHOLD))
            else:
                groups = self.backends[index].key_group_range
                handle = self.location.write_state(f"{number}-{index}", one.write_canonical, THRESHOLD)
                handles.append(KeyedStateHandle(groups.start, groups.end, "canonical", handle))
            one.release()
        ended = time.perf_counter()
        self.completed = (number,)
        return handles, frozen_at - started, ended - frozen_at

    def restore(self, handles):
        """Restore the first subtask; return seconds."""
        groups = self.backends[0].key_group_range
        mine = [handle for handle in handles if handle.key_group_range.intersect(groups)]
        started = time.perf_counter()
        self.snapshots[0].restore(RestoredOperator(self.location.uri, mine))
        return time.perf_counter() - started

    def close(self):
        for backend in self.backends:
            backend.close()
        shutil.rmtree(self.folder)


def size(handles):
    return sum(handle.state_size for handle in handles)


def megabytes(number):
    return f"{number / 1e6:,.1f}"


def plain_copy(root, handles):
    """Copy the files of a full snapshot as a yardstick, with fsync; return seconds."""
    started = time.perf_counter()
    for handle in handles:
        assert isinstance(handle.handle, FileStateHandle)
        source = Path(root, "chk", handle.handle.path)
        with source.open("rb") as read, source.with_suffix(".copy").open("wb") as copy:
            shutil.copyfileobj(read, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
    return time.perf_counter() - started


def restores(root, canonical, native, parallelism, rounds):
    """Return the median seconds to restore the first subtask at a parallelism: canonical, native."""
    result = []
    for handles in (canonical, native):
        times = []
        for _ in range(rounds):
            bench = Bench(root, parallelism)
            times.append(bench.restore(handles))
            bench.close()
        result.append(statistics.median(times))
    return result


def main(keys, rounds):
    root = tempfile.mkdtemp(prefix="incremental-")
    bench = Bench(root, 2)
    bench.write(range(keys))
    canonical, sync, full_seconds = bench.checkpoint(1, incremental=False)
    rows = [("full, canonical", size(canonical), size(canonical), sync, bench.waited, full_seconds)]
    native, sync, seconds = bench.checkpoint(2, incremental=True)
    rows.append(("incremental, the first", size(native), size(native), sync, bench.waited, seconds))
    for number in range(3, 3 + rounds):
        bench.write(random.Random(number).sample(range(keys), keys // 100))
        native, sync, seconds = bench.checkpoint(number, incremental=True)
        written = sum(handle.checkpointed_size for handle in native)
        rows.append((f"incremental, 1 % changed ({number - 2})", written, size(native), sync, bench.waited, seconds))
    canonical, sync, seconds = bench.checkpoint(99, incremental=False)
    rows.append(("full, canonical, the same state", size(canonical), size(canonical), sync, bench.waited, seconds))
    copied = plain_copy(root, canonical)
    bench.close()
    print(f"{machine()}\n{keys:,} keys, 2 subtasks one after the other\n")
    print("| checkpoint | written MB | state MB | written / state | sync s | next epoch s | async s |")
    print("|---|---|---|---|---|---|---|")
    for name, written, state, sync, waited, seconds in rows:
        cells = f"{megabytes(written)} | {megabytes(state)} | {written / state:.3f} | {sync:.4f} | {waited:.3f}"
        print(f"| {name} | {cells} | {seconds:.3f} |")
    print(f"\nA plain copy of the last full one's files, with fsync: {copied:.3f} s\n")
    print("| restore of the first subtask | canonical s | native s |\n|---|---|---|")
    for parallelism in (2, 1, 4):
        times = restores(root, canonical, native, parallelism, max(1, rounds // 2))
        print(f"| 2 -> {parallelism} | {times[0]:.3f} | {times[1]:.3f} |")
    shutil.rmtree(root)


if __name__ == "__main__":
    main(*(int(argument.replace("_", "")) for argument in (*sys.argv[1:], *("1_000_000", "5")[len(sys.argv) - 1 :])))

"""Seconds per GB to take a savepoint and to restore it, canonical and native, per state backend; and how long inspect takes.

    python benchmarks/snapshots/savepoint_formats.py [KEYS] [ROUNDS]

One operator of 2 subtasks with KEYS (900,000) values of 200 bytes of which half compress, driven as slots drive it, one
subtask after the other, without Spark. Each figure stands beside a plain copy of the very same bytes with fsync, made right
after it. Medians of ROUNDS (3); storage and working folder are on the disk of the temporary folder.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from incremental_checkpoint import MAX_PARALLELISM, THRESHOLD, Bench, megabytes, size

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

from pystate.common import Types
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import read_metadata, write_metadata
from pystate.core.snapshot.native_state import NativeUpload
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.reading.inspection import inspect_operators
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.ops.catalog.garbage import named_files

PARALLELISM = 2
GB = 1e9


def take(bench, root, number, native):
    """Take a savepoint; return its location, its handles and the seconds."""
    location = SnapshotLocation(os.path.join(root, f"savepoint-{number}"))
    location.create()
    started = time.perf_counter()
    handles = []
    frozen = [one.freeze(number, None, native=native) for one in bench.snapshots]
    for index, one in enumerate(frozen):
        if isinstance(one, NativeUpload):
            handles.append(one.write(location, f"{index}", THRESHOLD))
        else:
            groups = bench.backends[index].key_group_range
            handle = location.write_state(f"{index}", one.write_canonical, THRESHOLD)
            handles.append(KeyedStateHandle(groups.start, groups.end, "canonical", handle))
        one.release()
    return location, handles, time.perf_counter() - started


def plain_copy(root, location):
    """Copy the files of a savepoint, each with fsync; return seconds."""
    target = tempfile.mkdtemp(dir=root)
    started = time.perf_counter()
    for name in location.file_names():
        with open(os.path.join(location.uri.removeprefix("file:"), name), "rb") as read:
            with open(os.path.join(target, name), "wb") as copy:
                shutil.copyfileobj(read, copy, 1 << 20)
                copy.flush()
                os.fsync(copy.fileno())
    seconds = time.perf_counter() - started
    shutil.rmtree(target)
    return seconds


def restore(root, backend, location, handles):
    """Restore both subtasks, one after the other; return seconds."""
    bench = Bench(root, PARALLELISM, backend)
    bench.location = location
    seconds = 0.0
    for index in range(PARALLELISM):
        bench.backends[0], bench.backends[index] = bench.backends[index], bench.backends[0]
        bench.snapshots[0], bench.snapshots[index] = bench.snapshots[index], bench.snapshots[0]
        seconds += bench.restore(handles)
    bench.close()
    return seconds


def describe(location, handles, native):
    """Give a savepoint its `_metadata`."""
    subtasks = {index: OperatorSubtaskState([handle]) for index, handle in enumerate(handles)}
    key_type = Types.LONG().to_plain()
    metadata = CheckpointMetadata(
        checkpoint_id=1,
        checkpoint_type=CheckpointType.SAVEPOINT,
        format=SavepointFormatType.NATIVE if native else SavepointFormatType.CANONICAL,
        timestamp_ms=0,
        job_id="0" * 32,
        job_name="benchmark",
        epoch=0,
        parallelism=PARALLELISM,
        max_parallelism=MAX_PARALLELISM,
        operators=[OperatorState("value", "value", PARALLELISM, MAX_PARALLELISM, key_type, KEY_ENCODING, subtasks)],
    )
    location.write_metadata(write_metadata(metadata))


def enlarged(root, location, least):
    """Return a savepoint of at least so many bytes: operators with hard links to the files of one."""
    metadata = read_metadata(location.read_metadata(), location.uri)
    (operator,) = metadata.operators
    large = SnapshotLocation(os.path.join(root, "savepoint-large"))
    large.create()
    operators = []
    for number in range(-(-least // operator.state_size)):
        subtasks = {}
        for index, state in operator.subtasks.items():
            (keyed,) = state.keyed_state
            name = f"{number}-{keyed.handle.path}"
            os.link(
                *(f"{one.uri.removeprefix('file:')}/{path}" for one, path in ((location, keyed.handle.path), (large, name)))
            )
            subtasks[index] = OperatorSubtaskState([replace(keyed, handle=replace(keyed.handle, path=name))])
        operators.append(replace(operator, uid=f"value-{number}", subtasks=subtasks))
    large.write_metadata(write_metadata(replace(metadata, operators=operators)))
    return large


def inspected(location):
    """Inspect a savepoint as the command does; return seconds and its bytes of state."""
    started = time.perf_counter()
    metadata = read_metadata(location.read_metadata(), location.uri)
    figures = inspect_operators(location, metadata)
    seconds = time.perf_counter() - started
    assert all(state.entries for operator in figures for state in operator.states)
    assert named_files(metadata, location.uri)
    return seconds, metadata.state_size


def main(keys, rounds):
    root = tempfile.mkdtemp(prefix="formats-")
    print(f"{machine()}, load average {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"{keys:,} keys, {PARALLELISM} subtasks one after the other, medians of {rounds}\n")
    print("| backend | format | MB | savepoint s | s/GB | restore s | s/GB | plain copy s | s/GB |")
    print("|---|---|---|---|---|---|---|---|---|")
    large = None
    for backend, native in (("hashmap", False), ("rocksdb", False), ("rocksdb", True)):
        bench = Bench(root, PARALLELISM, backend)
        bench.write(range(keys))
        taken, restored, copied = [], [], []
        for number in range(rounds):
            location, handles, seconds = take(bench, root, number, native)
            taken.append(seconds)
            copied.append(plain_copy(root, location))
            restored.append(restore(root, backend, location, handles))
            if number < rounds - 1:
                shutil.rmtree(location.uri.removeprefix("file:"))
        bench.close()
        described = [statistics.median(times) for times in (taken, restored, copied)]
        cells = " | ".join(f"{seconds:.2f} | {seconds / size(handles) * GB:.1f}" for seconds in described)
        name = "native" if native else "canonical"
        print(f"| {backend} | {name} | {megabytes(size(handles))} | {cells} |", flush=True)
        if not native:
            describe(location, handles, native)
            large = enlarged(root, location, int(GB)) if large is None else large
        shutil.rmtree(location.uri.removeprefix("file:"))
    times, state = zip(*(inspected(large) for _ in range(rounds)), strict=True)
    print(f"\nInspect of a canonical savepoint of {megabytes(state[0])} MB: {statistics.median(times):.2f} s")
    shutil.rmtree(root)


if __name__ == "__main__":
    main(*(int(argument.replace("_", "")) for argument in (*sys.argv[1:], *("900_000", "3")[len(sys.argv) - 1 :])))

"""What a large epoch, and a visit of all keys, take of a slot's memory, with and without a bound for the epoch.

    python benchmarks/state/epoch_memory.py [--keys N] [--kinds NAME ...] [--backends NAME ...] [--bounds SIZE ...]

One epoch reads and writes the state of each of N new STRING keys once, in batches of 10,000, and ends. Then a second epoch
visits all keys with `apply_to_all_keys`, once to read and once to change them. Each case is a process of its own.

Memory is the peak of the process's resident set (VmHWM, reset before each part) less what it was at the part's beginning.
Time is processor time of the calling thread per key, the end of the epoch included; what RocksDB does on its own threads
isn't in it. `pystate.state.epoch-memory` is the bound; hashmap has none.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec

BATCH = 10_000
MAX_PARALLELISM = 128
UNBOUNDED = "1024 gb"
LONG = Types.LONG()


def update_value(state):
    state.update((state.value() or 0) + 1)


def update_list_value(state):
    value = state.value()
    state.update([1, 2, 3] if value is None else [*value, 4])


def add_and_get(state):
    state.add(1)
    state.get()


def put(state):
    state.put(1, (state.get(1) or 0) + 1)


# kind -> descriptor, what changes it, what reads it
KINDS = {
    "value LONG": (ValueStateDescriptor("s", LONG), update_value, lambda state: state.value()),
    "value LIST": (ValueStateDescriptor("s", Types.LIST(LONG)), update_list_value, lambda state: state.value()),
    "list": (ListStateDescriptor("s", LONG), add_and_get, lambda state: state.get()),
    "map": (MapStateDescriptor("s", LONG, LONG), put, lambda state: list(state.items())),
}


def resident(field):
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith(field))
    return int(line.split()[1]) / 1000


def measured(run):
    """Return (peak MB above the beginning, seconds of processor time)."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before, started = resident("VmRSS"), time.thread_time()
    run()
    return resident("VmHWM") - before, time.thread_time() - started


def case(backend_name, kind, bound, count):
    """Print the figures of one case."""
    codec = KeyCodec(Types.STRING())
    descriptor, change, read = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        backend = create_state_backend(
            backend_name,
            key_codec=codec,
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=folder,
            configuration=Configuration({"pystate.state.epoch-memory": bound}),
        )
        state, context = backend.get_partitioned_state(descriptor), backend.key_context

        def epoch():
            for start in range(0, count, BATCH):
                keys = [f"key-{number:08d}" for number in range(start, min(start + BATCH, count))]
                groups = [codec.key_group(key, MAX_PARALLELISM) for key in keys]
                backend.prefetch(keys, groups)
                for key, group in zip(keys, groups, strict=True):
                    context.active_key = key
                    context.active_key_group = group
                    change(state)
                backend.limit_epoch(len(keys), 24 * len(keys))
            backend.flush_epoch()

        def visit(what):
            backend.apply_to_all_keys(descriptor, lambda _, of_key: what(of_key))
            backend.flush_epoch()

        parts = [measured(run) for run in (epoch, lambda: visit(read), lambda: visit(change))]
        backend.close()
    print(" | ".join(f"{memory:,.0f} MB, {seconds / count * 1e6:.1f} us" for memory, seconds in parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--backends", nargs="+", default=["hashmap", "rocksdb"])
    parser.add_argument("--bounds", nargs="+", default=["128 mb", UNBOUNDED])
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        case(*arguments.case, arguments.keys)
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}; "
        f"{arguments.keys:,} keys\n\n| state | backend | bound | an epoch of new keys | visit, read | visit, change |"
    )
    print("|---|---|---|---|---|---|")
    for kind in arguments.kinds:
        for backend in arguments.backends:
            for bound in arguments.bounds if backend == "rocksdb" else [UNBOUNDED]:
                command = [sys.executable, __file__, "--keys", str(arguments.keys), "--case", backend, kind, bound]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
                print(f"| {kind} | {backend} | {'none' if bound == UNBOUNDED else bound} | {output} |", flush=True)


if __name__ == "__main__":
    main()

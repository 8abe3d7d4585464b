"""Nanoseconds per `value()` + `update()` on each state backend, next to a bare dict and bare rocksdict, in one run.

    python benchmarks/state_access.py [--keys N ...] [--rounds N]

A value is a LONG counter, or a LIST of three LONGs whose last is counted up; keys are STRINGs. The pystate sides call
`set_current_key`, `value` and `update` per access, as the slot does.

- *hot*: 1,000 keys, all seen before in the same epoch, in random order; the flush of the epoch isn't counted.
- *cold*: every key once, in random order, 20,000 accesses to an epoch; flushes are counted.

The dict holds the values as they are. Bare rocksdict (raw mode, no WAL, its default options) holds msgpack: get, unpack,
change, pack, put. Each figure is the best of the rounds; the sides take turns.
"""

import argparse
import os
import platform
import random
import tempfile
import time
from importlib.metadata import version

import msgpack
from rocksdict import Options, Rdict, WriteOptions

from pystate.api.state import ValueStateDescriptor
from pystate.common import Types
from pystate.common.key_groups import KeyGroupRange
from pystate.state.base.keys import KeyCodec
from pystate.state.base.loader import create_state_backend, state_backend_names

HOT_KEYS = 1_000
HOT_ACCESSES = 200_000
COLD_EPOCH = 20_000
MAX_PARALLELISM = 128
TYPES = {"LONG": Types.LONG(), "LIST": Types.LIST(Types.LONG())}


def changed(kind, value):
    if kind == "LONG":
        return (value or 0) + 1
    if value is None:
        return [1, 2, 3]
    value[2] += 1
    return value


class DictSide:
    name = "dict"

    def __init__(self, kind, keys, folder):
        self.data = {key: changed(kind, None) for key in keys}

    def run(self, kind, keys):
        data = self.data
        if kind == "LONG":
            for key in keys:
                data[key] = data.get(key, 0) + 1
        else:
            for key in keys:
                value = data.get(key)
                value[2] += 1
                data[key] = value

    def flush(self):
        pass

    def close(self):
        pass


class RocksdictSide:
    name = "rocksdict"

    def __init__(self, kind, keys, folder):
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        no_wal = WriteOptions()
        no_wal.disable_wal = True
        self.db = Rdict(folder, options)
        self.db.set_write_options(no_wal)
        for key in keys:
            self.db[key.encode()] = msgpack.packb(changed(kind, None))
        self.db.flush()

    def run(self, kind, keys):
        get, put, pack, unpack = self.db.get, self.db.put, msgpack.packb, msgpack.unpackb
        if kind == "LONG":
            for key in keys:
                row = key.encode()
                put(row, pack(unpack(get(row)) + 1))
        else:
            for key in keys:
                row = key.encode()
                value = unpack(get(row))
                value[2] += 1
                put(row, pack(value))

    def flush(self):
        pass

    def close(self):
        self.db.close()


class BackendSide:
    def __init__(self, name, kind, keys, folder):
        self.name = name
        codec = KeyCodec(Types.STRING())
        self.backend = create_state_backend(
            name,
            key_codec=codec,
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=folder,
        )
        self.state = self.backend.get_partitioned_state(ValueStateDescriptor("n", TYPES[kind]))
        self.groups = {key: codec.key_group(key, MAX_PARALLELISM) for key in keys}
        for number, key in enumerate(keys):
            self.backend.set_current_key(key, self.groups[key])
            self.state.update(changed(kind, None))
            if number % COLD_EPOCH == COLD_EPOCH - 1:
                self.backend.flush_epoch()
        self.backend.flush_epoch()

    def run(self, kind, keys):
        # the slot gets the key groups with the rows, so looking them up isn't counted
        pairs = [(key, self.groups[key]) for key in keys]
        set_current_key, read, update = self.backend.set_current_key, self.state.value, self.state.update
        started = time.perf_counter()
        if kind == "LONG":
            for key, group in pairs:
                set_current_key(key, group)
                update((read() or 0) + 1)
        else:
            for key, group in pairs:
                set_current_key(key, group)
                value = read()
                value[2] += 1
                update(value)
        return time.perf_counter() - started

    def flush(self):
        self.backend.flush_epoch()

    def close(self):
        self.backend.close()


def timed(call, *arguments):
    """Return what the call measured itself, else how long it took, in seconds."""
    started = time.perf_counter()
    own = call(*arguments)
    return time.perf_counter() - started if own is None else own


def measure(side, kind, hot, cold):
    """Return nanoseconds per access: (hot, cold)."""
    side.run(kind, hot[: 4 * HOT_KEYS])
    hot_s = timed(side.run, kind, hot)
    side.flush()
    cold_s = 0.0
    for start in range(0, len(cold), COLD_EPOCH):
        cold_s += timed(side.run, kind, cold[start : start + COLD_EPOCH]) + timed(side.flush)
    return hot_s / len(hot) * 1e9, cold_s / len(cold) * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"rocksdict {version('rocksdict')}, msgpack {version('msgpack')}"
    )
    print(f"{'keys':>9} {'type':<5} {'side':<10} {'hot ns':>8} {'cold ns':>8}")
    for count in arguments.keys:
        keys = [f"key-{number:08d}" for number in range(count)]
        shuffled = random.Random(count).sample(keys, count)
        hot = random.Random(1).choices(shuffled[:HOT_KEYS], k=HOT_ACCESSES)
        for kind in TYPES:
            with tempfile.TemporaryDirectory() as folder:
                sides = [DictSide(kind, keys, folder), RocksdictSide(kind, keys, f"{folder}/bare")]
                sides += [BackendSide(name, kind, keys, folder) for name in state_backend_names()]
                results = {side.name: [] for side in sides}
                for _ in range(arguments.rounds):
                    for side in sides:
                        results[side.name].append(measure(side, kind, hot, shuffled))
                for side in sides:
                    best = [min(column) for column in zip(*results[side.name], strict=True)]
                    print(f"{count:>9} {kind:<5} {side.name:<10} {best[0]:>8.0f} {best[1]:>8.0f}", flush=True)
                    side.close()


if __name__ == "__main__":
    main()

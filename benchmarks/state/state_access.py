"""What a read and write of each kind of state costs on each backend, next to a bare dict and bare rocksdict, in one run.

    python benchmarks/state/state_access.py [--quick] [--keys N ...] [--kinds NAME ...] [--rounds N]

An access reads and writes the state of one STRING key:

- *value LONG*: a counter, `value` and `update`. *value LIST*: three LONGs whose last is counted up in place.
- *list*: `add` of a LONG and `get`; at 16 elements the list is cleared.
- *map*: `get` and `put` of a LONG under one of four map keys.
- *reducing*: `add` of a LONG to a sum. *aggregating*: `add` to a sum and a count, a TUPLE.

The keys:

- *hot*: 1,000 keys, all seen before in the same epoch, in random order; the flush of the epoch isn't counted.
- *cold*: each key once to an epoch, in random order, 20,000 accesses to an epoch; flushes are counted.

The pystate sides announce the keys of each batch of 10,000 to the backend, and set the current key per access, as the slot
does. The dict holds objects. Bare rocksdict (raw mode, no WAL, its default options) holds msgpack: get, unpack, change,
pack, put; a map is a row per entry.

Figures are nanoseconds of processor time of the calling thread, which other processes disturb less than the clock on the
wall; what RocksDB does on its own threads isn't in them. Each is the best of the rounds, in which the sides take turns. The
ratios are what to compare: hashmap to the dict, rocksdb to hashmap (hot) and to bare rocksdict (cold).
"""

import argparse
import itertools
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import msgpack
from rocksdict import Options, Rdict, WriteOptions

from pystate.common import Types
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec

HOT_KEYS = 1_000
HOT_ACCESSES = 40_000
COLD_EPOCH = 20_000
COLD_ACCESSES = 100_000
BATCH = 10_000
FULL_LIST = 16
MAX_PARALLELISM = 128
BACKENDS = ("hashmap", "rocksdb")


def plus(left, right):
    return left + right


class SumAndCount(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, first, second):
        return first[0] + second[0], first[1] + second[1]


def dict_value(data, keys):
    for key in keys:
        data[key] = data.get(key, 0) + 1


def dict_list_value(data, keys):
    for key in keys:
        value = data.get(key)
        if value is None:
            value = [1, 2, 3]
        value[2] += 1
        data[key] = value


def dict_list(data, keys):
    for key in keys:
        elements = data.get(key)
        if elements is None:
            elements = data[key] = []
        elements.append(1)
        if len(elements) >= FULL_LIST:
            elements.clear()


def dict_map(data, keys):
    for key, map_key in zip(keys, itertools.cycle(range(4))):
        entries = data.get(key)
        if entries is None:
            entries = data[key] = {}
        entries[map_key] = entries.get(map_key, 0) + 1


def dict_reducing(data, keys):
    for key in keys:
        value = data.get(key)
        data[key] = 1 if value is None else plus(value, 1)


def dict_aggregating(data, keys):
    function = SumAndCount()
    add, create = function.add, function.create_accumulator
    for key in keys:
        accumulator = data.get(key)
        data[key] = add(1, create() if accumulator is None else accumulator)


def rocksdict_values(db, keys, change):
    get, put, pack, unpack = db.get, db.put, msgpack.packb, msgpack.unpackb
    for key in keys:
        row = key.encode()
        data = get(row)
        put(row, pack(change(None if data is None else unpack(data))))


def rocksdict_value(db, keys):
    get, put, pack, unpack = db.get, db.put, msgpack.packb, msgpack.unpackb
    for key in keys:
        row = key.encode()
        data = get(row)
        put(row, pack(1 if data is None else unpack(data) + 1))


def rocksdict_list_value(db, keys):
    def change(value):
        value = [1, 2, 3] if value is None else value
        value[2] += 1
        return value

    rocksdict_values(db, keys, change)


def rocksdict_list(db, keys):
    def change(elements):
        elements = [] if elements is None else elements
        elements.append(1)
        return elements if len(elements) < FULL_LIST else []

    rocksdict_values(db, keys, change)


def rocksdict_map(db, keys):
    get, put, pack, unpack = db.get, db.put, msgpack.packb, msgpack.unpackb
    for key, map_key in zip(keys, itertools.cycle(range(4))):
        row = key.encode() + pack(map_key)
        data = get(row)
        put(row, pack(1 if data is None else unpack(data) + 1))


def rocksdict_reducing(db, keys):
    rocksdict_values(db, keys, lambda value: 1 if value is None else plus(value, 1))


def rocksdict_aggregating(db, keys):
    function = SumAndCount()
    rocksdict_values(db, keys, lambda held: function.add(1, function.create_accumulator() if held is None else held))


def state_value(context, state, pairs):
    value, update = state.value, state.update
    for key, group in pairs:
        context.active_key = key
        context.active_key_group = group
        update((value() or 0) + 1)


def state_list_value(context, state, pairs):
    read, update = state.value, state.update
    for key, group in pairs:
        context.active_key = key
        context.active_key_group = group
        value = read()
        if value is None:
            value = [1, 2, 3]
        value[2] += 1
        update(value)


def state_list(context, state, pairs):
    add, get, clear = state.add, state.get, state.clear
    for key, group in pairs:
        context.active_key = key
        context.active_key_group = group
        add(1)
        if len(get()) >= FULL_LIST:
            clear()


def state_map(context, state, pairs):
    get, put = state.get, state.put
    for (key, group), map_key in zip(pairs, itertools.cycle(range(4))):
        context.active_key = key
        context.active_key_group = group
        put(map_key, (get(map_key) or 0) + 1)


def state_add(context, state, pairs):
    add = state.add
    for key, group in pairs:
        context.active_key = key
        context.active_key_group = group
        add(1)


@dataclass(frozen=True)
class Kind:
    """One kind of state: its descriptor, and what the sides do with it."""

    descriptor: Any
    in_dict: Callable[..., None]
    in_rocksdict: Callable[..., None]
    in_state: Callable[..., None]


LONG = Types.LONG()
KINDS = {
    "value LONG": Kind(ValueStateDescriptor("s", LONG), dict_value, rocksdict_value, state_value),
    "value LIST": Kind(ValueStateDescriptor("s", Types.LIST(LONG)), dict_list_value, rocksdict_list_value, state_list_value),
    "list": Kind(ListStateDescriptor("s", LONG), dict_list, rocksdict_list, state_list),
    "map": Kind(MapStateDescriptor("s", LONG, LONG), dict_map, rocksdict_map, state_map),
    "reducing": Kind(ReducingStateDescriptor("s", plus, LONG), dict_reducing, rocksdict_reducing, state_add),
    "aggregating": Kind(
        AggregatingStateDescriptor("s", SumAndCount(), Types.TUPLE([LONG, LONG])),
        dict_aggregating,
        rocksdict_aggregating,
        state_add,
    ),
}


class DictSide:
    name = "dict"

    def __init__(self, kind, codec, folder):
        self.data = {}
        self.call = kind.in_dict

    def prepare(self, keys):
        return chunks(keys, BATCH)

    def run(self, prepared):
        for batch in prepared:
            self.call(self.data, batch)

    def flush(self):
        pass

    def settle(self):
        pass

    def close(self):
        pass


class RocksdictSide(DictSide):
    name = "rocksdict"

    def __init__(self, kind, codec, folder):
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        no_wal = WriteOptions()
        no_wal.disable_wal = True
        self.data = Rdict(f"{folder}/bare", options)
        self.data.set_write_options(no_wal)
        self.call = kind.in_rocksdict

    def settle(self):
        self.data.flush()

    def close(self):
        self.data.close()


class BackendSide:
    def __init__(self, name, kind, codec, folder):
        self.name = name
        self.codec = codec
        self.backend = create_state_backend(
            name,
            key_codec=codec,
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=folder,
        )
        self.state = self.backend.get_partitioned_state(kind.descriptor)
        self.call = kind.in_state
        self.context = getattr(self.backend, "key_context", self.backend)  # which older checkouts don't have

    def prepare(self, keys):
        # the slot gets the key groups with the rows, so working them out isn't counted
        groups = [self.codec.key_group(key, MAX_PARALLELISM) for key in keys]
        batches = zip(chunks(keys, BATCH), chunks(groups, BATCH), strict=True)
        return [(part, of_part, list(zip(part, of_part, strict=True))) for part, of_part in batches]

    def run(self, prepared):
        for keys, groups, pairs in prepared:
            self.backend.prefetch(keys, groups)
            self.call(self.context, self.state, pairs)

    def flush(self):
        self.backend.flush_epoch()

    def settle(self):
        pass

    def close(self):
        self.backend.close()


def timed(call, *arguments):
    started = time.thread_time()
    call(*arguments)
    return time.thread_time() - started


def measure_hot(side, prepared, accesses):
    """Return nanoseconds per access."""
    side.run(prepared[:1])
    seconds = timed(side.run, prepared)
    side.flush()
    return seconds / accesses * 1e9


def measure_cold(side, epochs, accesses):
    """Return nanoseconds per access."""
    seconds = sum(timed(side.run, prepared) + timed(side.flush) for prepared in epochs)
    return seconds / accesses * 1e9


def chunks(keys, size):
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def measure(kind, count, rounds, hot_turns):
    """Return side -> nanoseconds per access: (hot, cold)."""
    codec = KeyCodec(Types.STRING())
    keys = [f"key-{number:08d}" for number in range(count)]
    random.Random(count).shuffle(keys)
    hot_keys = random.Random(1).choices(keys[:HOT_KEYS], k=HOT_ACCESSES)
    hot, cold = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        sides = [DictSide(kind, codec, folder), RocksdictSide(kind, codec, folder)]
        sides += [BackendSide(name, kind, codec, folder) for name in BACKENDS]
        for side in sides:
            for part in chunks(keys, COLD_EPOCH):
                side.run(side.prepare(part))
                side.flush()
            side.settle()
            hot[side.name], cold[side.name] = [], []
        prepared = {side.name: side.prepare(hot_keys) for side in sides}
        for _ in range(hot_turns):
            for side in sides:
                hot[side.name].append(measure_hot(side, prepared[side.name], len(hot_keys)))
        for number in range(rounds):
            start = number * COLD_ACCESSES % count
            accessed = keys[start : start + COLD_ACCESSES]
            for side in sides:
                epochs = [side.prepare(part) for part in chunks(accessed, COLD_EPOCH)]
                cold[side.name].append(measure_cold(side, epochs, len(accessed)))
        for side in sides:
            side.close()
    return {name: (min(hot[name]), min(cold[name])) for name in hot}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="10,000 keys, three rounds")
    arguments = parser.parse_args()
    counts, rounds = ([10_000], 3) if arguments.quick else (arguments.keys, arguments.rounds)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, "
        f"rocksdict {version('rocksdict')}, msgpack {version('msgpack')}; best of {rounds} rounds"
    )
    print("\n| keys | state | | dict | bare rocksdict | hashmap | rocksdb | hashmap / dict | rocksdb / |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count in counts:
        for name in arguments.kinds:
            results = measure(KINDS[name], count, rounds, 4 * rounds)
            for index, heat in enumerate(("hot", "cold")):
                bare, rocksdict, hashmap, rocksdb = (
                    results[side][index] for side in ("dict", "rocksdict", "hashmap", "rocksdb")
                )
                against = f"{rocksdb / hashmap:.2f} hashmap" if heat == "hot" else f"{rocksdb / rocksdict:.2f} rocksdict"
                figures = " | ".join(f"{figure:,.0f}" for figure in (bare, rocksdict, hashmap, rocksdb))
                print(f"| {count:,} | {name} | {heat} | {figures} | {hashmap / bare:.2f} | {against} |", flush=True)


if __name__ == "__main__":
    main()

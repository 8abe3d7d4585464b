"""What each way to aggregate, and each place of a value on RocksDB, is worth: runs with it and without it, in one process.

    python benchmarks/slots/ways.py [--rounds N] [--only WORD]

Each line takes one thing away and divides processor time of the calling thread, in the best of some rounds, by that with
it; the two sides take turns. So a ratio of 2 says that records take twice as long without. Rolling sums are those of
`field_aggregation.py`, counts those of `slot_throughput.py`, windows those of `slot_windows.py` (cold ones with a fifth of
the elements).
"""

import argparse
import os
import platform
import random
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from unittest import mock

from field_aggregation import MINI_BATCH, AggregationSide, ElementAggregation, pair_batches
from slot_throughput import SlotSide, arrow_batches
from slot_windows import Count, arrow_epochs
from slot_windows import run as run_windows

from pystate.common import Types
from pystate.core.api.aggregation import AccumulateType, ElementCount, FieldAggregation
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb import value_cache
from pystate.runtime.slot.operators import field_aggregations
from pystate.runtime.slot.operators.windowing import aligned_windows, keyed_windows_operator, window_columns, window_tables

RECORDS = 100_000
CACHE = {"state.backend.rocksdb.object-cache.size": "64mb"}


def rolling(rounds, batches, backend, with_it, without, patches=()):
    """Return the best processor times of an epoch, with and without; sides are (function, kind, configuration)."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [AggregationSide(backend, folder, *side) for side in (with_it, without)]
        return in_turn(rounds, [lambda: sides[0].epoch(batches), patched(lambda: sides[1].epoch(batches), patches)], sides)


def counts(rounds, batches, options, patches):
    """The same of a count per key in a value state on RocksDB; the first of options is with, the second without."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [SlotSide("rocksdb", folder, options=each) for each in options]
        return in_turn(rounds, [lambda: sides[0].epoch(batches), patched(lambda: sides[1].epoch(batches), patches)], sides)


def windows(rounds, epochs, kind, backend, function, patches):
    """The same of windows."""

    def run():
        return run_windows(kind, backend, epochs, function)[0]

    return in_turn(rounds, [run, patched(run, patches)])


def patched(run, patches):
    """Return a run with attributes replaced: (object, name, value)."""

    def replaced():
        with ExitStack() as stack:
            for place, name, value in patches:
                stack.enter_context(mock.patch.object(place, name, value))
            return run()

    return replaced


def in_turn(rounds, runs, sides=()):
    best = [float("inf"), float("inf")]
    for number in range(rounds + 1):
        for place, run in enumerate(runs):
            started = time.thread_time()
            seconds = run()
            if number:  # the first one fills the state
                best[place] = min(best[place], time.thread_time() - started if seconds is None else seconds)
    for side in sides:
        side.close()
    return best


def lines(rounds):
    """Yield (what is taken away, where, function that measures it)."""
    codec = KeyCodec(Types.STRING())
    words = [f"word-{number:08d}" for number in range(RECORDS)]
    random.Random(1).shuffle(words)
    picked = {"hot": random.Random(2).choices(words[:1_000], k=RECORDS), "cold": words}
    total, most = AccumulateType.SUM, AccumulateType.MAX_BY
    for heat, chosen in picked.items():
        pairs = list(pair_batches(chosen, codec))
        for backend in ("hashmap", "rocksdb"):
            known, element = (FieldAggregation, total), (ElementAggregation, total)
            yield "columns of sum()", f"{backend}, {heat}", partial(rolling, rounds, pairs, backend, known, element)
        known, element = (FieldAggregation, most), (ElementAggregation, most)
        yield "columns of max_by()", f"hashmap, {heat}", partial(rolling, rounds, pairs, "hashmap", known, element)
        known, element = ((which, total, MINI_BATCH) for which in (FieldAggregation, ElementAggregation))
        yield (
            "columns of sum() in mini-batches",
            f"hashmap, {heat}",
            partial(rolling, rounds, pairs, "hashmap", known, element),
        )
        every = FieldAggregation, total
        yield "mini-batch, by columns", f"hashmap, {heat}", partial(rolling, rounds, pairs, "hashmap", known, every)
        every = ElementAggregation, total
        yield "mini-batch, by element", f"hashmap, {heat}", partial(rolling, rounds, pairs, "hashmap", element, every)
        alone = FieldAggregation, total
        patch = [(field_aggregations, "_SHORT", 0)]
        yield (
            "short groups accumulated together",
            f"hashmap, {heat}",
            partial(rolling, rounds, pairs, "hashmap", alone, alone, patch),
        )
    epochs = {
        "hot": arrow_epochs(picked["hot"], codec),
        "cold": arrow_epochs(words[:20_000], codec),
    }
    own, count = Count(), ElementCount()
    tables, operators = window_tables.WindowTables, keyed_windows_operator

    def unkept(accumulators, timers, _kept, slide=0):
        return tables(accumulators, timers, 0, slide)

    for what, function, patches in (
        ("aligned windows", own, [(operators, "is_aligned", lambda *_: False)]),
        ("columns of windows", count, [(operators, "window_columns", lambda *_: None)]),
        ("columns only where groups are few", count, [(window_columns, "_MOST_GROUPS", 2)]),
        ("panes", count, [(operators, "pane_state", lambda *_: None)]),
        ("windows kept over epochs", own, [(aligned_windows, "WindowTables", unkept)]),
        ("new windows known as new", own, [(tables, "_is_new", lambda *_: False)]),
    ):
        for kind in ("tumbling", "sliding") if what != "panes" else ("sliding",):
            for backend in ("hashmap", "rocksdb"):
                for heat in ("hot", "cold"):
                    where = f"{kind}, {backend}, {heat}"
                    yield what, where, partial(windows, rounds, epochs[heat], kind, backend, function, patches)
    never = [(value_cache, "TRIAL_KEYS", 0), (value_cache, "MAX_KEYS", 0)]
    for heat, chosen in picked.items():
        batches = list(arrow_batches(chosen, codec))
        for name, some in ((heat, batches), (f"{heat}, small epochs", batches[:1])):
            yield "values read ahead", name, partial(counts, rounds, some, ({}, {}), never)
            yield "cache over epochs (64 MB)", name, partial(counts, rounds, some, (CACHE, {}), ())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a word of the lines to measure")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| taken away | where | with it, ms | without / with |\n|---|---|---|---|")
    for what, where, measure in lines(arguments.rounds):
        if arguments.only in what:
            before, after = measure()
            print(f"| {what} | {where} | {before * 1e3:.1f} | {after / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
